import http from "node:http";
http.createServer((request, response) => {
  const url = new URL(request.url, "http://node");
  const parts = [];
  request.on("data", part => parts.push(part));
  request.on("end", () => {
    if (url.pathname === "/echo") response.end(Buffer.concat(parts));
    else if (url.pathname === "/bytes") response.end(Buffer.alloc(Number(url.searchParams.get("n")), 0xab));
    else response.end("hello");
  });
}).listen(Number(process.argv[2]), "127.0.0.1");
