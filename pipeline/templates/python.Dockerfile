# Installed from a copy, since building leaves folders behind and the tree stays as it was cloned.
RUN cp -a @workdir@ /tmp/source && cd /tmp/source \
 && if [ -f pyproject.toml ] || [ -f setup.py ]; then wanted='.@extras@'; \
    elif [ -f requirements.txt ]; then wanted='--requirement requirements.txt'; fi \
 && pip install --quiet --no-cache-dir --disable-pip-version-check --root-user-action=ignore $wanted pytest \
 && rm -rf /tmp/source
