set -e
python3 - <<'CODE'
import numpy
import pandas
from sklearn.linear_model import LogisticRegression

points = numpy.array([[0.0], [1.0], [2.0], [3.0]])
labels = pandas.Series([0, 0, 1, 1])
assert LogisticRegression().fit(points, labels).score(points, labels) == 1.0
CODE
