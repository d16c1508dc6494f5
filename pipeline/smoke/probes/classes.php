<?php
// Loads classes (arguments: class, file, class, file …), each in a process of its own since a broken one ends it: by the
// project's loader, or else from its file. Ends with 0 when at least half came and so did the first.
[, $class, $file] = array_pad(array_slice($argv, 0, 3), 3, null);
$tree = getcwd();
if ($argc === 4 && $argv[3] === '--alone') {
    chdir('/tmp');
    if (is_file("$tree/vendor/autoload.php")) {
        require "$tree/vendor/autoload.php";
    }
    $there = fn (bool $load) => class_exists($class, $load) || interface_exists($class, $load)
        || trait_exists($class, $load) || (function_exists('enum_exists') && enum_exists($class, $load));
    if (!$there(true)) {
        require_once "$tree/$file";
    }
    exit($there(false) ? 0 : 1);
}
$came = [];
foreach (array_chunk(array_slice($argv, 1), 2) as [$class, $file]) {
    exec(implode(' ', array_map('escapeshellarg', [PHP_BINARY, __FILE__, $class, $file, '--alone'])) . ' 2>&1', $said, $code);
    $came[] = $code === 0;
    echo $code === 0 ? "loaded: $class\n" : "not loaded: $class (" . substr(implode(' ', $said), 0, 300) . ")\n";
    $said = [];
}
exit($came[0] && count(array_filter($came)) * 2 >= count($came) ? 0 : 1);
