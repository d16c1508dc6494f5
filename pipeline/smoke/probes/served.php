<?php
// Serves the folder that the argument names and asks for its first page; ends with 0 when that answers with something and
// tells of no fault.
$port = 18000 + getmypid() % 1000;
$server = proc_open([PHP_BINARY, '-d', 'display_errors=1', '-S', "127.0.0.1:$port", '-t', $argv[1]], [], $pipes);
$context = stream_context_create(['http' => ['ignore_errors' => true, 'follow_location' => 0, 'timeout' => 10]]);
for ($tries = 0; $tries < 50; $tries++) {
    usleep(100000);
    $body = @file_get_contents("http://127.0.0.1:$port/", false, $context);
    if ($body !== false) {
        break;
    }
}
proc_terminate($server, 9);
$status = (int) (explode(' ', $http_response_header[0] ?? '')[1] ?? 0);
echo "status $status, ", strlen((string) $body), " bytes\n", substr((string) $body, 0, 500), "\n";
$fault = preg_match('/(Fatal|Parse) error|Failed opening|Failed to open stream|Uncaught/', (string) $body);
exit($status === 200 && trim((string) $body) !== '' && !$fault ? 0 : 1);
