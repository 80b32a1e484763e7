// The status, live: /api/events read as a stream with fetch, since EventSource cannot send the admin token.
// Whatever comes from outside is set as text, never as HTML.

const words = {
  en: {
    line: "Line", nodes: "Nodes", decisions: "Scaling decisions", state: "State", name: "Node", age: "Age",
    served: "Served", last_request: "Last request", last_probe: "Last probe", waiting: "Waiting",
    oldest: "Longest wait", running: "Running", left: "Left", refused: "Refused", trouble: "Scaling has trouble: ",
    no_nodes: "There is no node.", no_decisions: "No decision yet.", checked: "Last check: ", ago: " ago",
    up: "up", down: "down", starting: "starting", idle: "idle", busy: "busy", unready: "unready",
    draining: "draining", connecting: "connecting", live: "live", lost: "no connection, trying again",
    locked: "locked", token: "Admin token", unlock: "Show", refused_token: "This token was refused.",
    running_for: "running for", never: "–",
  },
  zh: {
    line: "队列", nodes: "节点", decisions: "扩缩容记录", state: "状态", name: "节点", age: "存在时间",
    served: "已完成", last_request: "最近请求", last_probe: "最近探测", waiting: "排队中",
    oldest: "最长等待", running: "处理中", left: "已离开", refused: "已拒绝", trouble: "扩缩容出错：",
    no_nodes: "当前没有节点。", no_decisions: "暂无记录。", checked: "最近检查：", ago: "前",
    up: "扩容", down: "缩容", starting: "启动中", idle: "空闲", busy: "忙碌", unready: "未就绪",
    draining: "正在移除", connecting: "连接中", live: "实时", lost: "连接已断开，正在重试",
    locked: "需要令牌", token: "管理令牌", unlock: "查看", refused_token: "令牌无效。",
    running_for: "已运行", never: "–",
  },
};
const language = navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
const say = words[language];
const get = (id) => document.getElementById(id);

function make(tag, { text = "", kind = "", title = "" } = {}, ...children) {
  const element = document.createElement(tag);
  if (text !== "") element.textContent = text;
  if (kind) element.className = kind;
  if (title) element.title = title;
  element.append(...children);
  return element;
}

const units = language === "zh" ? ["天", "小时", "分", "秒"] : ["d", "h", "min", "s"];
function span(secs) {
  if (secs < 60) return `${secs < 10 ? Math.max(secs, 0).toFixed(1) : Math.floor(secs)} ${units[3]}`;
  if (secs < 3600) return `${Math.floor(secs / 60)} ${units[2]} ${Math.floor(secs % 60)} ${units[3]}`;
  if (secs < 86400) return `${Math.floor(secs / 3600)} ${units[1]} ${Math.floor((secs % 3600) / 60)} ${units[2]}`;
  return `${Math.floor(secs / 86400)} ${units[0]} ${Math.floor((secs % 86400) / 3600)} ${units[1]}`;
}
const age = (time) => (Date.now() - Date.parse(time)) / 1000;
const ago = (time) => (time === null ? say.never : span(age(time)) + say.ago);
const clock = (time) => new Date(time).toLocaleString(language);

function tile(name, value, more = "") {
  return make("div", {}, make("dt", { text: name }), make("dd", { text: value }, make("small", { text: more })));
}

function showLine(queue) {
  get("tiles").replaceChildren(
    tile(say.waiting, queue.length, ` / ${queue.capacity}`),
    tile(say.oldest, span(queue.oldest_wait_secs)),
    tile(say.running, queue.running),
    tile(say.served, queue.served),
    tile(say.left, queue.left),
    tile(say.refused, queue.refused),
  );
}

function showNode(node) {
  const probe = node.last_probe;
  const isBad = node.state !== "starting" && probe !== null && probe.status !== 200;
  const found = probe === null ? say.never : [probe.status, probe.error].filter((part) => part !== null).join(" ");
  return make("tr", {},
    make("td", {}, make("span", { text: say[node.state], kind: `state ${node.state}` })),
    make("td", { text: node.name }, make("small", { text: node.url ?? node.id ?? "" })),
    make("td", { text: span(age(node.created_at)), title: clock(node.created_at) }),
    make("td", { text: node.served, kind: "number" }),
    make("td", { text: ago(node.last_processed_at) }),
    make("td", { text: found, kind: isBad ? "bad" : "" }, make("small", { text: probe ? ago(probe.at) : "" })));
}

function showDecision(made) {
  return make("li", {},
    make("time", { text: clock(made.at), kind: "quiet" }),
    make("strong", { text: `${say[made.action] ?? made.action} ${made.count}` }),
    make("span", { text: made.reason }));
}

function show(status) {
  get("about").textContent = `${status.version} · ${say.running_for} ${span(status.uptime_secs)}`;
  showLine(status.queue);
  get("nodes").replaceChildren(...status.nodes.map(showNode));
  get("no_nodes").hidden = status.nodes.length > 0;
  const { decisions, last_check_at, last_error } = status.scaler;
  get("decisions").replaceChildren(...decisions.map(showDecision).reverse());
  get("no_decisions").hidden = decisions.length > 0;
  get("checked").textContent = say.checked + ago(last_check_at);
  get("error").textContent = say.trouble + (last_error ?? "");
  get("error").hidden = last_error === null;
  get("facts").hidden = false;
}

function showLink(state) {
  get("link").dataset.state = state;
  get("link").textContent = say[state];
}

// Calls `told(name, data)` for each event until the stream ends.
async function follow(stream, told) {
  let rest = "";
  for (const reader = stream.pipeThrough(new TextDecoderStream()).getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const fields = Object.fromEntries(event.split("\n").map((field) => field.split(/: (.*)/s, 2)));
      told(fields.event, JSON.parse(fields.data));
    }
  }
}

function askForToken() {
  const form = get("unlock");
  showLink("locked");
  get("facts").hidden = true;
  get("refused").hidden = !sessionStorage.getItem("token");
  form.hidden = false;
  get("token").focus();
  return new Promise((resolve) => {
    form.onsubmit = (event) => {
      event.preventDefault();
      sessionStorage.setItem("token", get("token").value);
      get("token").value = "";
      form.hidden = true;
      resolve();
    };
  });
}

async function run() {
  const tell = { status: show };
  for (let pauseSecs = 1; ;) {
    try {
      const token = sessionStorage.getItem("token");
      const headers = token ? { Authorization: `Bearer ${token}` } : {};
      const response = await fetch("api/events", { headers, cache: "no-store" });
      if (response.status === 401) {
        await askForToken();
        continue;
      }
      if (!response.ok) throw new Error(`status ${response.status}`);
      showLink("live");
      pauseSecs = 1;
      await follow(response.body, (name, data) => tell[name]?.(data));
    } catch (error) {
      console.warn("events:", error.message);
    }
    showLink("lost");
    await new Promise((resolve) => setTimeout(resolve, pauseSecs * 1000));
    pauseSecs = Math.min(pauseSecs * 2, 10);
  }
}

document.documentElement.lang = language;
for (const element of document.querySelectorAll("[data-text]")) element.textContent = say[element.dataset.text];
showLink("connecting");
run();
