# The main sources become one jar, made from a copy so that the tree stays as it was cloned.
ENV CLASSPATH=.:/usr/local/lib/@name@.jar:/usr/share/java/*
RUN cp -a @project@ /tmp/source && cd /tmp/source \
 && CLASSPATH= python3 /tmp/build_java.py /usr/local/lib/@name@.jar @options@ \
 && rm -rf /tmp/build_java.py /tmp/classes /tmp/sources /tmp/source
