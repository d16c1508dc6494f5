#!/bin/sh
# Puts Node.js $1 with npm, yarn and corepack into $2. Runs inside a build of javascript.Dockerfile; the tools of another
# release fetch it, since Debian's are too old for that.
set -eu
version=$1 target=$2
major=${version%%.*}
export npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false
case $(uname -m) in x86_64) machine=x64 ;; aarch64) machine=arm64 ;; *) echo "no Node.js for $(uname -m)" >&2; exit 1 ;; esac
if [ "$major" -lt 16 ]; then npm=6 corepack=none; elif [ "$major" -lt 18 ]; then npm=8 corepack=0.17.2; else npm=10 corepack=0.34.0; fi

mkdir -p "$target" && cd "$(mktemp -d)"
tar -xzf "$(npm pack --silent "node-linux-$machine@$version")"
cp -a package/bin package/include "$target/"
mkdir -p "$target/lib/node_modules"
npm install --loglevel=error --global --prefix "$target" "npm@$npm" yarn@1
# By hand, since its own `yarn` would be in the way of the other.
if [ "$corepack" != none ]; then
  rm -rf package
  tar -xzf "$(npm pack --silent "corepack@$corepack")"
  mv package "$target/lib/node_modules/corepack"
  ln -s ../lib/node_modules/corepack/dist/corepack.js "$target/bin/corepack"
fi
