# Built from a copy, since the tree stays as it was cloned. Without a target `install` the new programs are copied.
RUN cp -a @workdir@ /tmp/source && cd /tmp/source && touch /tmp/before \
 && make prefix=/usr/local PREFIX=/usr/local \
 && if make -n prefix=/usr/local PREFIX=/usr/local install > /dev/null 2>&1; then \
      make prefix=/usr/local PREFIX=/usr/local install > /dev/null; \
    else \
      find . -type f -perm -u+x -newer /tmp/before ! -name '*.o' ! -name '*.so*' -exec cp '{}' /usr/local/bin/ ';'; \
    fi \
 && ldconfig \
 && rm -rf /tmp/source /tmp/before
