"""A client that sees the bytes: HTTP/1.1 over a socket, chunks kept apart."""

import json
import socket
import urllib.parse


class Stream:
    """POSTs a body and reads the answer chunk by chunk. A context manager; leaving it closes the connection."""

    def __init__(self, url, path, body, seconds=60):
        address = urllib.parse.urlsplit(url)
        self.socket = socket.create_connection((address.hostname, address.port), timeout=seconds)
        self.file = self.socket.makefile("rb")
        payload = json.dumps(body).encode()
        self.socket.sendall(
            f"POST {path} HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(payload)}\r\n\r\n".encode() + payload)
        self.status = None
        self.headers = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.file.close()
        self.socket.close()

    def read_head(self):
        if self.status is None:
            self.status = int(self.file.readline().split()[1])
            while (line := self.file.readline().rstrip(b"\r\n")):
                name, value = line.decode().split(":", 1)
                self.headers[name.lower()] = value.strip()
        return self

    def chunks(self):
        """Bytes of each chunk up to the last one; a connection that ends without the last chunk is an EOFError."""
        self.read_head()
        assert self.headers.get("transfer-encoding") == "chunked", self.headers
        while True:
            line = self.file.readline()
            if not line.endswith(b"\r\n"):
                raise EOFError("the connection ended inside the answer")
            size = int(line, 16)
            data = self.file.read(size)
            assert self.file.read(2) == b"\r\n"
            if size == 0:
                return
            yield data

    def events(self):
        """Documents of the events, each one chunk, without the final [DONE]."""
        for chunk in self.chunks():
            assert chunk.startswith(b"data: ") and chunk.endswith(b"\n\n") and chunk.count(b"\n") == 2, chunk
            text = chunk[len(b"data: "):-2]
            if text != b"[DONE]":
                yield json.loads(text)
