"""A collector of OTLP, by the messages of PyPI's opentelemetry-proto: over gRPC and over HTTP.

Prints a line with its two ports, then a line of JSON for each span that it is sent. Runs in an environment of its own.
"""

import concurrent.futures
import http.server
import json
import threading

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

printing = threading.Lock()


def value_of(value):
    return getattr(value, value.WhichOneof("value"))


def tell(request, over):
    with printing:
        for resource in request.resource_spans:
            service = {pair.key: value_of(pair.value) for pair in resource.resource.attributes}
            for span in (span for scope in resource.scope_spans for span in scope.spans):
                print(json.dumps({
                    "over": over, "service": service["service.name"], "name": span.name, "kind": span.kind,
                    "trace": span.trace_id.hex(), "id": span.span_id.hex(), "parent": span.parent_span_id.hex(),
                    "begin": span.start_time_unix_nano, "end": span.end_time_unix_nano, "status": span.status.code,
                    "message": span.status.message,
                    "attributes": {pair.key: value_of(pair.value) for pair in span.attributes}}), flush=True)


class Service(trace_service_pb2_grpc.TraceServiceServicer):
    def Export(self, request, context):
        tell(request, "grpc")
        return trace_service_pb2.ExportTraceServiceResponse()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        right = self.path == "/v1/traces" and self.headers["Content-Type"] == "application/x-protobuf"
        if right:
            tell(trace_service_pb2.ExportTraceServiceRequest.FromString(body), "http")
        self.send_response(200 if right else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


grpc_server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Service(), grpc_server)
grpc_port = grpc_server.add_insecure_port("127.0.0.1:0")
grpc_server.start()
http_server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(json.dumps({"grpc": grpc_port, "http": http_server.server_port}), flush=True)
http_server.serve_forever()
