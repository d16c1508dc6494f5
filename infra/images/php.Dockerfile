# PHP: the command line interpreter, its usual extensions and an autoloader generator.
ARG BASE
FROM ${BASE}
RUN DEBIAN_FRONTEND=noninteractive apt-get install -y -qq phpab php-cli php-mbstring php-xml > /dev/null && apt-get clean
