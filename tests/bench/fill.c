/* Fills a data folder with one kernel of a given size, as a job would leave it, and a signing key: fill DATA BYTES [SHAPE_HASH]. Prints the hash. */
#include "core/minisign.h"
#include "store/store.h"

#include <string.h>

int main(int argc, char **argv)
{
    struct err err = {0};
    struct store *s = NULL;
    if (argc < 3 || argc > 4 || (argc == 4 && !hash_hex_valid(argv[3])))
        return 2;
    hash_init();
    size_t bytes = (size_t)strtoull(argv[2], NULL, 10);
    struct store_config config = {.dir = argv[1], .map_bytes = (int64_t)1 << 30};
    struct signer signer;
    if (!dir_make(argv[1], 0700, &err) || !store_open(&config, &s, &err) || !signer_open(argv[1], &signer, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    signer_done(&signer);
    cleanup(mem) void *cubin = xalloc(bytes);
    random_bytes(cubin, bytes);
    struct hash_hex hash = hash_of("bench", 5), digest;
    if (argc == 4)
        snprintf(hash.text, sizeof hash.text, "%s", argv[3]);
    struct store_batch *b = store_batch_new();
    cleanup(json) json_t *kernel = json_object(), *digests = json_object(), *event = json_object();
    static const char *const files[] = {"kernel.ptx", "source", "certificate.json", "certificate.json.minisig"};
    store_put_blob(b, cubin, bytes, &digest);
    json_put_str(digests, "kernel.cubin", digest.text);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        store_put_blob(b, files[i], strlen(files[i]), &digest);
        json_put_str(digests, files[i], digest.text);
    }
    json_put_str(kernel, "shape_hash", hash.text);
    json_put_str(kernel, "evidence", "emulated");
    json_put(kernel, "digests", json_incref(digests));
    store_put(b, STORE_KERNEL, hash.text, NULL, kernel);
    json_put_str(event, "shape_hash", hash.text);
    store_event(b, "shape.best", NULL, event);
    if (!store_commit(s, b, NULL, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    store_close(s);
    puts(hash.text);
    return 0;
}
