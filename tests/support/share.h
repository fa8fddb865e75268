/* Sanitizers make everything many times slower: there tests do the same with less of it. */
#ifndef DI_TEST_SHARE_H
#define DI_TEST_SHARE_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { DI_TEST_SHARE = 8 }; /* an eighth */
#else
enum { DI_TEST_SHARE = 1 };
#endif

#endif
