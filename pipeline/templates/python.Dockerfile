# Installed from a copy, since building leaves folders behind and the tree stays as it was cloned.
RUN cp -a @workdir@ /tmp/source && cd /tmp/source \
 && if [ -f pyproject.toml ] || [ -f setup.py ]; then \
      pip install --quiet --no-cache-dir --disable-pip-version-check --root-user-action=ignore '.@extras@'; \
    elif [ -f requirements.txt ]; then \
      pip install --quiet --no-cache-dir --disable-pip-version-check --root-user-action=ignore -r requirements.txt; \
    fi \
 && pip install --quiet --no-cache-dir --disable-pip-version-check --root-user-action=ignore pytest \
 && rm -rf /tmp/source
