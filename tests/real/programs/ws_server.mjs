// A WebSocket server by `ws`; what each path does is the same in ws_server.py.
import http from "node:http";
import { createRequire } from "node:module";
const { WebSocketServer } = createRequire(process.argv[3] + "/")("ws");
let last = "none"; // how the connection before this one ended
const ready = http.createServer((request, response) => response.end("ready"));
const server = new WebSocketServer({
  server: ready.listen(Number(process.argv[2]), "127.0.0.1"), maxPayload: 0, perMessageDeflate: true,
  handleProtocols: offered => ["v2", "v1"].find(name => offered.has(name)) ?? false,
});
server.on("connection", (socket, request) => {
  const url = new URL(request.url, "ws://node"), query = url.searchParams;
  socket.on("message", (data, isBinary) => socket.send(data, { binary: isBinary }));
  socket.on("error", () => {});
  socket.on("close", (code, reason) => { if (url.pathname !== "/last") last = `${code} ${reason}`.trim(); });
  if (url.pathname === "/last") socket.send(last);
  else if (url.pathname === "/close") socket.close(Number(query.get("code")), query.get("reason"));
  else if (url.pathname === "/drop") socket.send("soon", () => socket.terminate());
  else if (url.pathname === "/give") socket.send(Buffer.alloc(Number(query.get("n")), 0xab));
  else if (url.pathname === "/ping") { socket.on("pong", () => socket.send("ponged")); socket.ping("are you there"); }
});
