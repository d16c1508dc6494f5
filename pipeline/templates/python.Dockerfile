# Installed from a copy, since building leaves folders behind and the tree stays as it was cloned. Many projects ask git
# for their version and their files: the copy has a history of one commit.
RUN export SETUPTOOLS_SCM_PRETEND_VERSION=1.0.0 PBR_VERSION=1.0.0 PIP_NO_INPUT=1 \
      SKLEARN_ALLOW_DEPRECATED_SKLEARN_PACKAGE_INSTALL=True; \
    cp -a @workdir@ /tmp/source && cd /tmp/source \
 && if [ ! -e .git ]; then git init -q . && git add -A -f \
      && git -c user.name=build -c user.email=build@localhost commit -q -m build && git tag v1.0.0; fi; \
    cd /tmp/source/@folder@ && python /tmp/install_python.py @workdir@ @folder@ @options@ --with @modules@ \
 && rm -rf /tmp/source /tmp/install_python.py
