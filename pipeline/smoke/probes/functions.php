<?php
// Includes files that hold functions, each in a process of its own, and ends with 0 when at least half of them define some.
if ($argc === 3 && $argv[2] === '--alone') {
    ob_start();
    require $argv[1];
    $own = array_filter(get_defined_functions()['user'], fn ($name) => (new ReflectionFunction($name))->getFileName() === realpath($argv[1]));
    exit($own ? 0 : 1);
}
$came = 0;
foreach (array_slice($argv, 1) as $file) {
    exec(implode(' ', array_map('escapeshellarg', [PHP_BINARY, __FILE__, $file, '--alone'])) . ' 2>&1', $said, $code);
    $came += $code === 0;
    echo $code === 0 ? "included: $file\n" : "not included: $file (" . substr(implode(' ', $said), 0, 300) . ")\n";
    $said = [];
}
exit($came > 0 && $came * 2 >= $argc - 1 ? 0 : 1);
