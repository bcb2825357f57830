#!/usr/bin/env python3
"""kubelet_server.py HOST CERT KEY SCENARIO LOG: a kubelet that behaves as the file SCENARIO says at each request.

Prints its port. LOG gets a line for each request: its path, its Host and its token. CERT "-": plain HTTP.
"""
import os
import socket
import ssl
import sys
import threading
import time

host, cert, key, scenario_file, log_file = sys.argv[1:6]
LIST = ('{"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [{"metadata": {"uid": "u1", "name": "cart", '
        '"namespace": "shop", "annotations": {"spoor.dev/instrument": "true"}}, "spec": {"containers": [{"name": "app"}]},'
        '"status": {}}]}').encode()
FORBIDDEN = (b"Forbidden (user=system:serviceaccount:spoor:spoor, verb=get, resource=nodes, "
             b"subresource(s)=[pods proxy])")


def answer(connection, status, body, length=None):
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length or len(body)}\r\n\r\n"
    connection.sendall(head.encode() + body)


def serve_one(connection, request):
    lines = request.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
    token = headers.get("Authorization", "-").removeprefix("Bearer ")
    with open(log_file, "a") as log:
        log.write(f"{lines[0].split()[1]} {headers.get('Host')} {token}\n")
    with open(scenario_file) as file:
        scenario, _, argument = file.read().strip().partition(":")
    if scenario == "token" and token != argument:
        scenario = "401"
    if scenario == "401":
        answer(connection, "401 Unauthorized", b"Unauthorized")
    elif scenario == "403":
        answer(connection, "403 Forbidden", FORBIDDEN)
    elif scenario == "500":
        answer(connection, "500 Internal Server Error", b"boom")
    elif scenario == "slow":
        time.sleep(5)
    elif scenario == "truncated":
        answer(connection, "200 OK", LIST[:100], len(LIST))
        return False
    elif scenario == "cut":  # complete for HTTP, not for JSON
        answer(connection, "200 OK", LIST[:100])
    elif scenario == "garbage":
        answer(connection, "200 OK", b"<html>not a kubelet</html>")
    elif scenario == "large":  # no Content-Length: only what comes in tells
        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + b" " * 300000)
        return False
    elif scenario == "close":
        return False
    elif scenario == "file":
        with open(argument, "rb") as file:
            answer(connection, "200 OK", file.read())
    else:
        answer(connection, "200 OK", LIST)
    return True


def serve(raw, context):
    try:
        connection = context.wrap_socket(raw, server_side=True) if context else raw
        buffered = b""
        while True:
            while b"\r\n\r\n" not in buffered:
                data = connection.recv(65536)
                if not data:
                    return
                buffered += data
            request, _, buffered = buffered.partition(b"\r\n\r\n")
            if not serve_one(connection, request):
                connection.close()
                return
    except OSError:
        pass


def main():
    context = None
    if cert != "-":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.bind((host, 0))
    listener.listen(16)
    print(listener.getsockname()[1], flush=True)
    parent = os.getppid()
    listener.settimeout(1)
    while os.getppid() == parent:  # nobody needs it after the test
        try:
            raw, _ = listener.accept()
        except TimeoutError:
            continue
        raw.setblocking(True)
        threading.Thread(target=serve, args=(raw, context), daemon=True).start()


main()
