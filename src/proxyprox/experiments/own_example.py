"""A configuration that runs as it stands, with every key explained."""

EXAMPLE = """\
# A run of proxyprox on one's own data:  proxyprox run FILE.toml
# As it stands it runs on a table that ships with scikit-learn; to use your own, change the file
# names. Lines that begin with # are off. Paths are relative to this file.

[model]
family = "logistic"       # linear | logistic | softmax | poisson
l2 = 1e-3                 # strength of l2/2 * |w|^2; the intercept is never penalised
# l1 = 1e-3               # strength of the L1 norm; with l2 an elastic net
intercept = true
standardize = true        # by the target rows' mean and scale; the weights apply to raw columns
# classes = ["no", "yes"] # negative, then positive; default: the labels that occur, sorted

[target]                  # the rows whose labels are dear
file = "sklearn:breast_cancer"
# file = "mine.csv"       # .csv .tsv .parquet .svm .npz; CSV and svmlight also .gz .bz2 .xz
# label = "bought"        # label column (svmlight: leave out; npz: array, default y)
# features = ["age", "income"]   # default: every column but label and weight
# weight = "count"        # column of row weights
# format = "csv"          # where the ending does not tell

[proxy]                   # the rows that are cheap
kind = "label-free"       # label-free | labelled | subsample | none
# label-free: the target's inputs, or a file of unlabelled rows with the same columns
# file = "unlabelled.csv"
# labelled: older or synthetic rows (file, label)
# subsample: part of the target's rows (fraction = 0.1 or rows = 500)

[method]
name = "proxyprox"        # proxyprox | sgd | auxmom | auxmvr | dane
correction = "mean"       # proxyprox: plain | ema | mean | storm
# a = 0.1                 # weight of the newest difference (ema, storm, auxmom, auxmvr)
# eta = "auto"            # measured on the way, here and by the methods compared: no run is spent
#                         # on tuning, some 10 % of a run's own target gradients are
# eta = 10.0              # or a step size, or a list to choose from; left out: nine are tried
batch_size = 64           # rows of a target gradient, drawn with replacement; "all" for every row
averaging = "last"        # last (with eta = "auto" an average of its own) | uniform | geometric
# inner = "auto"          # auto | newton | quasi-newton | newton-cg | lbfgs |
#                         # gradient-descent | nesterov | proximal-gradient
# inner_steps = 20        # stop an inner solve after so many steps ...
# inner_tolerance = 1e-8  # ... or at this gradient norm

[run]
target_gradients = 200    # budget of a run
# tuning_gradients = 50   # budget of a run that tries a step size; default: a quarter
# seconds = 60.0          # time limit of a run
seeds = 3                 # final runs; the weights are those of the first
weights = "method"        # whose are written: method (that of [method]) | lowest (of all compared)
seed = 0
compare = ["sgd", "erm"]  # other methods, and erm: fit the rows seen so far, without a proxy
"""
"""Text of the example."""
