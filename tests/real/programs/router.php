<?php
$path = parse_url($_SERVER["REQUEST_URI"], PHP_URL_PATH);
if ($path === "/echo") {
    $body = file_get_contents("php://input");
} elseif ($path === "/bytes") {
    $body = str_repeat("\xab", intval($_GET["n"]));
} else {
    $body = "hello";
}
header("Content-Length: " . strlen($body));
echo $body;
