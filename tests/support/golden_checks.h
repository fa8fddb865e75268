/* A checkpoint with vectors (tests/golden/README.md) against the forward pass. Each prints what it
 * measured and fails the test beyond its bounds. name: a folder of tests/golden/. */
#ifndef DI_TEST_GOLDEN_CHECKS_H
#define DI_TEST_GOLDEN_CHECKS_H

/* Layer by layer from the reference's inputs, with its index lists (at least 99% of every layer's
 * elements equal bit for bit) and with our own selection. */
void di_golden_layers_match(const char *name);
/* Engram primes, offsets, multipliers and the token map: equal. */
void di_golden_constants_match(const char *name);
/* Logits end to end. */
void di_golden_logits_match(const char *name);

#endif
