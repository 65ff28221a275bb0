"""An API server of Kubernetes that knows EndpointSlices alone: it lists and watches them, and does what such servers do to those
who watch: it restarts, forgets old versions and lets tokens expire."""

import http.server
import json
import threading
import urllib.parse


class KubernetesApi:
    def __init__(self, token):
        self.token = token
        self.changed = threading.Condition()
        self.version = 100
        self.slices = {}
        self.events = []  # (version, line)
        self.oldest = 100  # watches from before are refused
        self.round = 0  # a watch of an earlier round ends
        self.refused = {401: 0, 410: 0}
        self.watches = 0
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                url = urllib.parse.urlsplit(self.path)
                query = urllib.parse.parse_qs(url.query)
                assert url.path == "/apis/discovery.k8s.io/v1/namespaces/fleet/endpointslices", url.path
                if self.headers["Authorization"] != f"Bearer {api.token}":
                    return self.refuse(401, "Unauthorized")
                if "watch" in query:
                    return self.watch(int(query["resourceVersion"][0]))
                with api.changed:
                    self.answer(200, {"metadata": {"resourceVersion": str(api.version)}, "items": list(api.slices.values())})

            def answer(self, status, document):
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def refuse(self, status, reason):
                api.refused[status] += 1
                self.answer(status, {"kind": "Status", "code": status, "message": reason})

            def watch(self, seen):
                with api.changed:
                    if seen < api.oldest:
                        return self.refuse(410, "too old resource version")
                    own_round = api.round
                    api.watches += 1
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                self.wfile.flush()
                while True:
                    with api.changed:
                        api.changed.wait_for(lambda: api.round != own_round or api.version > seen)
                        if api.round != own_round:
                            self.close_connection = True  # as of a server that went away
                            return
                        lines = [line for version, line in api.events if version > seen]
                        seen = api.version
                    for line in lines:
                        self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
                    self.wfile.flush()

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def put(self, service, pod, place, ready=True):
        """A slice of one pod, for each pod one."""
        host, port = place.removeprefix("tcp://").split(":")
        kind = "MODIFIED" if pod in self.slices else "ADDED"
        self.publish(kind, {
            "metadata": {"name": pod, "labels": {"kubernetes.io/service-name": service}}, "addressType": "IPv4",
            "ports": [{"name": "fleet", "port": int(port), "protocol": "TCP"}],
            "endpoints": [{"addresses": [host], "conditions": {"ready": ready}, "targetRef": {"kind": "Pod", "name": pod, "uid": f"uid-{pod}"}}]})

    def delete(self, pod):
        self.publish("DELETED", self.slices[pod])

    def publish(self, kind, item):
        with self.changed:
            self.version += 1
            item["metadata"]["resourceVersion"] = str(self.version)
            self.slices[item["metadata"]["name"]] = item
            if kind == "DELETED":
                del self.slices[item["metadata"]["name"]]
            self.events.append((self.version, json.dumps({"type": kind, "object": item}).encode() + b"\n"))
            self.changed.notify_all()

    def restart(self, token=None, forgets=False):
        """Every watch breaks off. With another token the old one is refused; what it `forgets` is every version so far."""
        with self.changed:
            self.round += 1
            self.token = token or self.token
            if forgets:
                self.version += 1
                self.oldest = self.version
            self.changed.notify_all()

    def stop(self):
        self.restart()
        self.server.shutdown()
        self.server.server_close()
