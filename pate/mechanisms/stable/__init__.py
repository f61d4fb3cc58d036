"""Gap selection and the stability test: a set of labels is released where its gap is safely large."""
