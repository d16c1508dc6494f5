# Composer's registry is not needed: the libraries are Debian's, and the autoloader follows composer.json.
RUN php /tmp/install.php && rm /tmp/install.php
