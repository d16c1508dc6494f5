# Composer's registry is not needed: the libraries are Debian's, and the autoloader follows composer.json.
RUN php /tmp/touchstone/install.php && rm -rf /tmp/touchstone
