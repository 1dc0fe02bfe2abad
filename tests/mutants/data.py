"""Changes of the data sets that some test must notice."""

from tests.mutants.mutant import Mutant

DATA = ("data",)

MUTANTS = [
    Mutant("what follows a stream is passed over", "data/compressed.py",
           "        packed = stream.unused_data\n", "        return\n", DATA),
    Mutant("a name without its hash", "data/loading.py",
           "    check_text(CATALOGUE[source], digest, str(path))\n", "", DATA),
    Mutant("the smaller label is +1", "data/labelled.py",
           "labels == kinds[1]", "labels == kinds[0]", DATA),
    Mutant("columns counted from 1", "data/libsvm.py",
           "index.astype(np.int32) - np.int32(1)", "index.astype(np.int32)", DATA),
    Mutant("indices may repeat", "data/libsvm.py",
           "(np.diff(index) > 0) |", "(np.diff(index) >= 0) |", DATA),
    Mutant("any kept file counts", "data/cache.py",
           "if view[:begin] != MAGIC + digest:", "if view[:16] != MAGIC:", DATA),
    Mutant("a kept file of an older text", "data/cache.py",
           '(header["source"], header["parser"]) != (source, parser_hash())',
           'header["parser"] != parser_hash()', DATA),
    Mutant("any download is right", "data/download.py",
           "check_text(wanted, digest_of(", "(lambda *_: None)(wanted, digest_of(", DATA),
    Mutant("images: the coarse label", "data/cifar.py",
           "records[:, wanted.label_bytes - 1]", "records[:, 0]", DATA),
    Mutant("images: any bytes are right", "data/cifar.py",
           "FileDigest(expected, sha256 or found.sha256)", "FileDigest(expected, found.sha256)", DATA),
    Mutant("images: any label is right", "data/cifar.py",
           "place.labels >= wanted.classes", "place.labels > wanted.classes", DATA),
    Mutant("images: each file at the beginning", "data/cifar.py",
           "        begin = end\n", "", DATA),
    Mutant("images: a link in an archive is a file", "data/archive.py",
           "if not member.isreg():", "if False:", DATA),
    Mutant("images: any member is right", "data/archive.py",
           "FileDigest(size, file.sha256))", "FileDigest(size, found.sha256))", DATA),
    Mutant("images: any number of members", "data/archive.py",
           "islice(archive, MEMBERS)", "archive", DATA),
    Mutant("images: too deep a chain of headers", "data/archive.py",
           "(tarfile.TarError, RecursionError)", "tarfile.TarError", DATA),
    Mutant("images: what unpacks may be huge", "data/web.py",
           "if length > most:", "if False:", DATA),
]  # fmt: skip
