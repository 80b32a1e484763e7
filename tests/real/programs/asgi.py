"""An ASGI application for uvicorn: plain requests, server-sent events, a WebSocket that echoes."""

import asyncio

results: list[bytes] = []  # what a page has posted


async def app(scope, receive, send) -> None:
    if scope["type"] == "websocket":
        await echo_messages(receive, send)
    elif scope["type"] == "http":
        await answer(scope, receive, send)


async def answer(scope, receive, send) -> None:
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    path, query = scope["path"], scope["query_string"]
    if path == "/events":
        head = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        for number in range(3):
            event = b"data: %d\n\n" % number
            await send({"type": "http.response.body", "body": event, "more_body": True})
            await asyncio.sleep(0.05)
        await send({"type": "http.response.body", "body": b"data: end\n\n"})
        return
    if path == "/result":
        results.append(body) if body else None
        kind, body = b"text/plain", b"".join(results)
    elif path == "/page":
        kind, body = b"text/html", PAGE
    elif path == "/bytes":
        kind, body = b"application/octet-stream", b"\xab" * int(query.removeprefix(b"n="))
    elif path == "/echo":
        kind = b"application/octet-stream"
    else:
        kind, body = b"text/plain", b"hello"
    head = [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": body})


async def echo_messages(receive, send) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": message.get("text"), "bytes": message.get("bytes")})


# One node serves one request at a time, so the page does one thing after the other.
PAGE = b"""<!doctype html><title>page</title><script>
const done = [];
const say = what => done.push(what);
const events = () => new Promise(resolve => {
  const source = new EventSource("/events"), seen = [];
  source.onmessage = event => { seen.push(event.data); if (event.data === "end") { source.close(); resolve(seen); } };
});
const socket = () => new Promise(resolve => {
  const ws = new WebSocket("ws://" + location.host + "/socket");
  ws.onopen = () => ws.send("ping");
  ws.onmessage = event => { ws.close(4001, "bye"); ws.onclose = () => resolve(event.data); };
});
(async () => {
  say("fetch=" + await (await fetch("/echo", {method: "POST", body: "abc"})).text());
  say("events=" + (await events()).join(","));
  say("socket=" + await socket());
  await fetch("/result", {method: "POST", body: done.join(" ")});
})();
</script>"""
