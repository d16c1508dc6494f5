<?php
// Does what `composer install` does where the libraries are Debian packages: writes vendor/autoload.php, and puts the
// programs on PATH. The loader itself lies in /usr/local/share and reads composer.json when it runs.
const SHARE = '/usr/local/share';
$tree = getcwd();
$composer = is_file('composer.json') ? json_decode(file_get_contents('composer.json'), true) ?? [] : [];

function write(string $path, string $text, int $mode = 0644): void
{
    if (!is_dir(dirname($path))) {
        mkdir(dirname($path), 0755, true);
    }
    file_put_contents($path, $text);
    chmod($path, $mode);
}

// Debian's libraries have their loader in a file autoload.php below /usr/share/php.
$libraries = [];
foreach (glob('/var/lib/dpkg/info/php-*.list') as $list) {
    foreach (file($list, FILE_IGNORE_NEW_LINES) as $path) {
        if (preg_match('~^/usr/share/php/.*/autoload\.php$~', $path)) {
            $libraries[] = $path;
            break;
        }
    }
}

$rules = ['psr-4' => [], 'psr-0' => [], 'files' => [], 'classmap' => []];
foreach (['autoload', 'autoload-dev'] as $section) {
    foreach ($rules as $kind => $known) {
        foreach ($composer[$section][$kind] ?? [] as $prefix => $places) {
            foreach ((array) $places as $place) {
                $rules[$kind][] = [$prefix, $tree . '/' . trim($place, '/')];
            }
        }
    }
}
// A tree without rules is searched for classes, as a class map is.
$searched = array_column($rules['classmap'], 1) ?: ($rules['psr-4'] || $rules['psr-0'] || $rules['files'] ? [] : [$tree]);
if ($searched) {
    exec('phpab --quiet --tolerant --output ' . SHARE . '/php-classes.php '
        . implode(' ', array_map('escapeshellarg', $searched)) . ' 2>&1', $said, $code);
    if ($code === 0 && is_file(SHARE . '/php-classes.php')) {
        $libraries[] = SHARE . '/php-classes.php';
    }
}

$export = fn ($value) => var_export($value, true);
write(SHARE . '/php-autoload.php', "<?php\n"
    . '$prefixes = ' . $export(array_merge($rules['psr-4'])) . ";\n"
    . '$folders = ' . $export(array_column($rules['psr-0'], 1)) . ";\n"
    . <<<'PHP'
spl_autoload_register(function (string $class) use ($prefixes, $folders): void {
    foreach ($prefixes as [$prefix, $folder]) {
        if (strncmp($class, $prefix, strlen($prefix)) === 0) {
            $file = $folder . '/' . str_replace('\\', '/', substr($class, strlen($prefix))) . '.php';
            if (is_file($file)) {
                require_once $file;
                return;
            }
        }
    }
    foreach ($folders as $folder) {
        $file = $folder . '/' . str_replace(['\\', '_'], '/', $class) . '.php';
        if (is_file($file)) {
            require_once $file;
            return;
        }
    }
});

PHP
    . implode('', array_map(fn ($file) => 'require_once ' . $export($file) . ";\n", array_merge($libraries, array_column($rules['files'], 1)))));
$loader = "<?php\nrequire_once '" . SHARE . "/php-autoload.php';\n";
write("$tree/vendor/autoload.php", $loader);
// Debian's programs ask for the loader by the namespace.
foreach (array_merge($rules['psr-4'], $rules['psr-0']) as [$prefix]) {
    write(SHARE . '/php/' . trim(str_replace('\\', '/', $prefix), '/') . '/autoload.php', $loader);
}
write(PHP_CONFIG_FILE_SCAN_DIR . '/99-project.ini', 'include_path = ".:' . SHARE . "/php:/usr/share/php\"\n");

foreach (array_unique(array_merge((array) ($composer['bin'] ?? []), glob('bin/*') ?: [])) as $program) {
    if (is_file($program) && str_contains((string) fgets(fopen($program, 'r')), 'php')) {
        write('/usr/local/bin/' . basename($program, '.php'), "#!/bin/sh\nexec php '$tree/$program' \"\$@\"\n", 0755);
    }
}
