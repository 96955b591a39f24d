"""What the scripted stand-ins for model APIs share: a loopback server on a free port that logs
what it was asked and answers from a script."""

import argparse
import http.server
import json


def parser(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--tool", required=True, help="name of the tool to call")
    parser.add_argument("--arguments", default="{}", help="arguments of that call, as JSON")
    parser.add_argument("--log", help="file to append one JSON line to for each request")
    return parser


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    log_file = None

    def log_message(self, *_):
        pass

    def body(self):
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        return json.loads(raw or b"{}")

    def log(self, entry):
        if self.log_file:
            with open(self.log_file, "a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")

    def answer(self, content_type, text):
        body = text.encode()
        self.send_response(200)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def json(self, value):
        self.answer("application/json", json.dumps(value))

    def events(self, events):
        """Server-sent events, each named by its own type."""
        lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        self.answer("text/event-stream", "".join(lines))


def serve(handler, log_file):
    """Serves until killed. The first line of output is the port."""
    handler.log_file = log_file
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()
