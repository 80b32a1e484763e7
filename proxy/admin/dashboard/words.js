// Every word of the page, in both languages; which one is the browser's choice. What the proxy and the cloud say
// (reasons, errors, results) is shown in their own words.

const words = {
  en: {
    // the link
    connecting: "connecting", live: "live", lost: "no connection, trying again; no news for", stale: "no news for",
    locked: "locked", token: "Admin token", unlock: "Show", refused_token: "This token was refused.",
    running_for: "running for",
    // the verdict
    all_well: "All is well", nothing_waits: "Nothing waits.",
    one_request: "request waits", many_requests: "requests wait", because: "because", since: "since",
    dispatch_is_held: "dispatch is held", scaling_is_held: "Scaling is held: no node is added or taken away.",
    by: "by", all_busy: "every node is busy", still_starting: "the nodes are still starting",
    unready_nodes: "Nodes are unready:", being_started: "being started",
    max_reached: "max_nodes is reached:", adds_when: "A node is added when the oldest has waited", or_more_than: "or more wait than",
    needs_restart: "Changed in the file, in effect after a restart:", to_do: "To do:",
    // titles
    course: "Over time", nodes: "Nodes", waiting_requests: "Waiting requests", orders: "Orders",
    decisions: "Scaling decisions", provider_errors: "Provider errors", figures: "Waits, runs, cost",
    actions: "Who did what", configuration: "Configuration in effect", range: "Range",
    // tiles and charts
    waiting: "Waiting", oldest: "Oldest wait", running: "Running", ready: "Ready nodes", of: "of", at_most: "at most",
    served: "Served", left: "Left", refused: "Refused", per_minute: "/ min", most: "most", now: "now",
    chart_waiting: "Requests waiting", chart_oldest: "Oldest wait", chart_nodes: "Nodes by state",
    chart_waits: "Waits", chart_runs: "Run times", chart_rates: "Requests a minute", chart_used: "Nodes in use",
    scales_at: "nodes are added at", no_data: "no request in this time",
    // nodes
    starting: "starting", idle: "idle", busy: "busy", unready: "unready", draining: "draining",
    age: "age", last_request: "last request", last_probe: "probe", will_drain: "drains after this run",
    no_nodes: "There is no node.", gone_nodes: "Nodes that are gone", drain: "Drain", replace: "Replace",
    resume: "Resume", ago: " ago", never: "–", ok: "ok",
    // waiting
    place: "#", request: "Request", waits_for: "Waits", size: "Size", client: "Client", remove: "Remove",
    no_waiting: "Nothing waits.", shown: "the first are shown:",
    // logs
    up: "up", down: "down", no_decisions: "No decision yet.", checked: "last check", mended: "mended",
    times: "times", no_errors: "The provider made no errors.", no_actions: "Nobody has given an order.",
    // figures
    waits: "Wait", runs: "Run", requests: "Count", in_use: "Nodes in use", paid: "Node hours paid",
    cost: "Cost", cost_now: "Cost per hour now", cost_each: "Cost per request",
    // orders
    scaling: "Scaling", dispatch: "Dispatch", hold: "Hold", held: "held", works: "on", set: "Set once",
    number_of_nodes: "Number of nodes", your_name: "Your name, for the record (optional)", cancel: "Cancel",
    hold_scaling: "Hold scaling?", resume_scaling: "Resume scaling?", hold_dispatch: "Hold dispatch?",
    resume_dispatch: "Resume dispatch?", set_nodes: "Set the number of nodes?", drain_node: "Drain this node?",
    replace_node: "Replace this node?", resume_node: "Resume this node?", remove_request: "Remove this request?",
    about_hold_scaling: "No node is created or destroyed until you resume, not even for min_nodes.",
    about_resume_scaling: "The scaler decides again, at once.",
    about_hold_dispatch: "Nothing is started until you resume. What runs goes on; what waits keeps its place.",
    about_resume_dispatch: "What waits starts, in its order.",
    about_set_nodes: "Once, within min_nodes and max_nodes. Then the scaler decides as always. Nodes:",
    about_drain_node: "It takes no more requests and is destroyed, after its run where it is busy:",
    about_replace_node: "Another node is made; this one goes when that is ready:",
    about_resume_node: "It may be used again:",
    about_remove_request: "Its client is answered 503, not_sent:",
  },
  zh: {
    connecting: "连接中", live: "实时", lost: "连接已断开，正在重试；未收到更新已", stale: "未收到更新已",
    locked: "需要令牌", token: "管理令牌", unlock: "查看", refused_token: "令牌无效。",
    running_for: "已运行",
    all_well: "一切正常", nothing_waits: "没有请求在排队。",
    one_request: "个请求在排队", many_requests: "个请求在排队", because: "，原因：", since: "开始于",
    dispatch_is_held: "派发已暂停", scaling_is_held: "扩缩容已暂停：不会增加或减少节点。",
    by: "操作人", all_busy: "所有节点都在忙", still_starting: "节点仍在启动",
    unready_nodes: "未就绪的节点：", being_started: "个节点正在启动", max_reached: "已达到 max_nodes：",
    adds_when: "增加节点的条件：最早的请求等待满", or_more_than: "或排队数超过",
    needs_restart: "配置文件中已更改，重启后生效：", to_do: "处理办法：",
    course: "变化趋势", nodes: "节点", waiting_requests: "排队中的请求", orders: "操作",
    decisions: "扩缩容记录", provider_errors: "云平台错误", figures: "等待、运行与费用",
    actions: "操作记录", configuration: "当前生效的配置", range: "时间范围",
    waiting: "排队中", oldest: "最长等待", running: "处理中", ready: "可用节点", of: "/", at_most: "上限",
    served: "已完成", left: "已离开", refused: "已拒绝", per_minute: "/ 分钟", most: "最高", now: "当前",
    chart_waiting: "排队请求数", chart_oldest: "最长等待", chart_nodes: "各状态节点数",
    chart_waits: "等待时间", chart_runs: "运行时间", chart_rates: "每分钟请求数", chart_used: "节点利用率",
    scales_at: "扩容阈值", no_data: "这段时间内没有请求",
    starting: "启动中", idle: "空闲", busy: "忙碌", unready: "未就绪", draining: "正在移除",
    age: "已存在", last_request: "最近请求", last_probe: "探测", will_drain: "本次运行后移除",
    no_nodes: "当前没有节点。", gone_nodes: "已消失的节点", drain: "移除", replace: "替换",
    resume: "恢复", ago: "前", never: "–", ok: "正常",
    place: "序号", request: "请求", waits_for: "已等待", size: "大小", client: "客户端", remove: "移出队列",
    no_waiting: "没有请求在排队。", shown: "仅显示最前面的：",
    up: "扩容", down: "缩容", no_decisions: "暂无记录。", checked: "最近检查", mended: "已恢复",
    times: "次", no_errors: "云平台没有出错。", no_actions: "还没有人执行过操作。",
    waits: "等待", runs: "运行", requests: "数量", in_use: "节点利用率", paid: "计费节点小时",
    cost: "费用", cost_now: "当前每小时费用", cost_each: "每个请求的费用",
    scaling: "扩缩容", dispatch: "派发", hold: "暂停", held: "已暂停", works: "未暂停", set: "设置一次",
    number_of_nodes: "节点数量", your_name: "您的姓名，用于记录（可选）", cancel: "取消",
    hold_scaling: "暂停扩缩容？", resume_scaling: "恢复扩缩容？", hold_dispatch: "暂停派发？",
    resume_dispatch: "恢复派发？", set_nodes: "设置节点数量？", drain_node: "移除此节点？",
    replace_node: "替换此节点？", resume_node: "恢复此节点？", remove_request: "移除此请求？",
    about_hold_scaling: "恢复之前不会创建或销毁任何节点，即使少于 min_nodes。",
    about_resume_scaling: "立即重新开始判断。",
    about_hold_dispatch: "恢复之前不会开始任何请求。正在运行的继续运行，排队的保持位置。",
    about_resume_dispatch: "排队的请求按顺序开始。",
    about_set_nodes: "仅此一次，不超出 min_nodes 与 max_nodes，之后照常自动判断。节点数：",
    about_drain_node: "不再接收请求；忙碌时等本次运行结束，然后销毁：",
    about_replace_node: "先创建新节点，新节点就绪后移除此节点：",
    about_resume_node: "可以重新使用：",
    about_remove_request: "其客户端将收到 503（not_sent）：",
  },
};

// Of each reason of health: what is so, and what to do about it.
const reasons = {
  en: {
    token_refused: ["the cloud refuses the token", "check `token` and the account, then restart with a valid key"],
    provider_failing: ["the cloud does not do what it is asked", "see its own words; look at its status page"],
    starts_failing: ["new nodes cannot be started", "look at stock, balance, the image, `health_check_path`"],
    scaler_stalled: ["the scaler has stopped checking", "look at the log; restart, and report it"],
    no_node: ["there is no node to send them to", "look at the nodes' last probes and the provider's errors"],
    line_full: ["the line is full, and more are answered 429", "raise `max_nodes` or `max_queue_length`"],
    line_nearly_full: ["the line is nearly full", "raise `max_nodes` or `max_queue_length`"],
    waiting_too_long: ["requests wait too long", "raise `max_nodes`, or lower the thresholds"],
    disk_nearly_full: ["the disk is nearly full", "make room where bodies are kept (`spool_dir`)"],
    event_loop_stalled: ["the proxy itself stood still", "look at the load of its machine"],
    config_refused: ["the changed configuration has faults, the old one is in effect", "mend the file"],
    records_dropped: ["request records are being lost", "look at the disk of `request_log`"],
    store_down: ["the jobs' database cannot be used", "look at the database"],
    alert_undelivered: ["alerts do not reach `alert_webhook`", "look at its receiver"],
  },
  zh: {
    token_refused: ["云平台拒绝了令牌", "检查 `token` 与账户，换成有效的密钥后重启"],
    provider_failing: ["云平台未能完成请求的操作", "查看其原话与云平台的状态页"],
    starts_failing: ["无法启动新节点", "检查库存、余额、镜像与 `health_check_path`"],
    scaler_stalled: ["扩缩容停止了检查", "查看日志；重启并反馈"],
    no_node: ["没有可用的节点", "查看节点的最近探测与云平台错误"],
    line_full: ["队列已满，新请求返回 429", "调高 `max_nodes` 或 `max_queue_length`"],
    line_nearly_full: ["队列快满了", "调高 `max_nodes` 或 `max_queue_length`"],
    waiting_too_long: ["请求等待时间过长", "调高 `max_nodes` 或降低阈值"],
    disk_nearly_full: ["磁盘空间不足", "清理存放请求体的目录（`spool_dir`）"],
    event_loop_stalled: ["代理进程曾停顿", "检查所在机器的负载"],
    config_refused: ["新的配置文件有误，仍使用旧配置", "修正配置文件"],
    records_dropped: ["请求记录正在丢失", "检查 `request_log` 所在磁盘"],
    store_down: ["任务数据库不可用", "检查数据库"],
    alert_undelivered: ["告警无法送达 `alert_webhook`", "检查接收端"],
  },
};

export const language = navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
export const say = words[language];

// [what is so, what to do] of a reason's code; one that is newer than this page is told by its code.
export const reasonOf = (code) => reasons[language][code] ?? [code, ""];
