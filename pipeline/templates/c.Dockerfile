# Built from a copy, since the tree stays as it was cloned.
RUN cp -a @project@ /tmp/source && cd /tmp/source && python3 /tmp/build_c.py @name@ @options@ \
 && rm -rf /tmp/source /tmp/build /tmp/before /tmp/build_c.py /tmp/object-*
