"""A Flask application: `python wsgi.py PORT` serves it with one thread; gunicorn takes `wsgi:app`."""

import sys

from flask import Flask, Response, request

app = Flask(__name__)


@app.get("/ready")
@app.get("/hello")
def hello() -> str:
    return "hello"


@app.post("/echo")
def echo() -> Response:
    return Response(request.get_data(), mimetype="application/octet-stream")


@app.get("/bytes")
def give() -> Response:
    return Response(b"\xab" * int(request.args["n"]), mimetype="application/octet-stream")


if __name__ == "__main__":
    app.run("127.0.0.1", int(sys.argv[1]), threaded=False)
