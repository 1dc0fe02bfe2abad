"""Entries of one place add up, as scipy has it: the matrix that they make is the one fitted."""

import re

import numpy as np
import pytest
import scipy.sparse as sp

from heavystep.linear import SHBLogisticRegression
from heavystep.linear.rows import sparse_rows
from heavystep.sparse import SparseRows


def problem(dtype=np.float64):
    """Rows with holes, a full column off the centre, noisy labels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 12)) * (rng.random((400, 12)) < 0.7)
    X[:, 0] += 5.0
    scores = X @ rng.normal(size=12) + rng.logistic(size=400)
    return X.astype(dtype), (scores > np.median(scores)).astype(int)


def in_halves(X, kind):
    """The same matrix with every entry in two parts, and no order within a row or column."""
    whole = sp.coo_matrix(X)
    order = np.random.default_rng(1).permutation(2 * whole.nnz)
    row, column, value = (np.tile(part, 2)[order] for part in (whole.row, whole.col, whole.data))
    major, minor = (row, column) if kind is sp.csr_matrix else (column, row)
    by_major = np.argsort(major, kind="stable")
    starts = np.searchsorted(major[by_major], np.arange(len(kind(X).indptr)))
    halves = kind((value[by_major] / 2, minor[by_major], starts), shape=X.shape)
    assert halves.nnz == 2 * np.count_nonzero(X)
    np.testing.assert_array_equal(halves.toarray(), X)
    return halves


def shuffled(X, kind):
    """The same matrix, without order within a row or column."""
    matrix, rng = kind(X), np.random.default_rng(1)
    for begin, end in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True):
        order = begin + rng.permutation(end - begin)
        matrix.indices[begin:end] = matrix.indices[order]
        matrix.data[begin:end] = matrix.data[order]
    matrix.has_sorted_indices = matrix.has_canonical_format = False
    return matrix


def fitted(matrix, y, method="fit"):
    model = SHBLogisticRegression(0.01, random_state=0)
    return model.fit(matrix, y) if method == "fit" else model.partial_fit(matrix, y, [0, 1])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csc_matrix])
@pytest.mark.parametrize("made", [in_halves, shuffled])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_the_sum_is_fitted_and_the_matrix_stays(method, made, kind, dtype):
    X, y = problem(dtype)
    matrix = made(X, kind)
    before = [array.copy() for array in (matrix.data, matrix.indices, matrix.indptr)]
    found, expected = (fitted(each, y, method) for each in (matrix, sp.csr_matrix(X)))
    for name in ("coef_", "intercept_", "loss_curve_", "n_iter_"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    np.testing.assert_allclose(
        found.decision_function(matrix), expected.decision_function(X), rtol=1e-4, atol=1e-5
    )
    for array, old in zip((matrix.data, matrix.indices, matrix.indptr), before, strict=True):
        np.testing.assert_array_equal(array, old)


def test_entries_count_and_not_what_the_matrix_says_of_them():
    X, y = problem()
    halves = in_halves(X, sp.csr_matrix)
    halves.has_canonical_format = True  # as it stays when arrays are changed in place
    np.testing.assert_array_equal(fitted(halves, y).coef_, fitted(sp.csr_matrix(X), y).coef_)


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_parts_that_cancel_leave_a_zero(index):
    data, indices, indptr = np.array([1.0, 2.0, -1.0]), np.array([0, 1, 0]), np.array([0, 3, 3])
    matrix = sp.csr_array((data, indices.astype(index), indptr.astype(index)), shape=(2, 2))
    rows = sparse_rows(matrix)
    assert (rows.indices.tolist(), rows.values.tolist()) == ([0, 1], [0.0, 2.0])
    assert rows.indptr.tolist() == [0, 2, 2]
    assert matrix.nnz == 3


@pytest.mark.parametrize("indptr", [[0, 8, 4, 12], [0, 12, -5, 12], [0, 100, 4, 12]])
def test_a_damaged_matrix_is_refused_before_its_entries_are_read(indptr):
    matrix = sp.csr_matrix(np.ones((3, 4)))
    matrix.indptr = np.array(indptr, dtype=np.int32)
    with pytest.raises(ValueError, match="non-decreasing"):
        sparse_rows(matrix)


def test_an_orderly_matrix_is_not_copied():
    matrix = sp.csr_matrix(problem()[0])
    rows = sparse_rows(matrix)
    assert np.shares_memory(rows.values, matrix.data)
    assert np.shares_memory(rows.indices, matrix.indices)


REPEATED = {
    "in order": [0, 1, 1, 1, 2],
    "not in order": [1, 2, 1, 0, 2],
    "in the last row": [0, 1, 2, 2, 2],
}


@pytest.mark.parametrize("columns", REPEATED.values(), ids=REPEATED)
def test_rows_refuse_a_column_that_comes_twice(columns):
    """Lengths of rows and moments of columns would be those of another matrix."""
    indptr, indices = np.array([0, 0, 3, 5, 5]), np.array(columns, dtype=np.int32)
    text = "indices must differ within a row, got column"
    with pytest.raises(ValueError, match=re.escape(text)):
        SparseRows(indptr, indices, np.ones(5), 3)


@pytest.mark.parametrize("columns", [[0, 1, 2, 0, 2], [2, 0, 1, 1, 0], [0, 1, 2, 2, 0]])
def test_rows_need_no_order(columns):
    indptr, indices = np.array([0, 0, 3, 5, 5]), np.array(columns, dtype=np.int32)
    rows = SparseRows(indptr, indices, np.ones(5), 3)
    np.testing.assert_allclose(rows.norms() ** 2, [0.0, 3.0, 2.0, 0.0])
