"""http.server and urllib in threads of one process; prints when each answer arrived, as JSON."""

import http.server
import json
import threading
import time
import urllib.request

CLIENTS = 4
REQUESTS = 5


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        time.sleep(int(self.path[1:]) / 1000)
        body = str(time.monotonic_ns()).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def send(number, port, records):
    for request in range(REQUESTS):
        time.sleep(0.011 * (number + 1))
        sent_ns = time.monotonic_ns()
        url = f"http://127.0.0.1:{port}/{10 * (request + 1)}"
        with urllib.request.urlopen(url, timeout=60) as response:
            answered_ns = int(response.read())
        records.append([number, request, sent_ns, answered_ns, time.monotonic_ns()])


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    records = []
    port = server.server_address[1]
    clients = [
        threading.Thread(target=send, args=(number, port, records)) for number in range(CLIENTS)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    server.shutdown()
    print(json.dumps(sorted(records)))


if __name__ == "__main__":
    main()
