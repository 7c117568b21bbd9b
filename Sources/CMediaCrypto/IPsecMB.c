// AES-128-GCM by Intel ipsec-mb. The library is opened at run time, so that a host without it still starts;
// only its header is needed to build, and without that (or off x86-64) the back end reports itself absent.
#define _GNU_SOURCE
#include "Internal.h"

#if defined(__x86_64__) && __has_include(<intel-ipsec-mb.h>)
#define NO_COMPAT_IMB_API_053 1
#include <dlfcn.h>
#include <intel-ipsec-mb.h>

_Static_assert(
    offsetof(struct gcm_key_data, ghash_keys) + sizeof(((struct gcm_key_data *)0)->ghash_keys)
        == MC_GCM_SCHEDULE_BYTES,
    "schedule has another size");

static aes_gcm_pre_t expand;
static aes_gcm_enc_dec_t encrypt, decrypt;

int mc_mb_load(void) {
    void *library = dlopen("libIPSec_MB.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return 0;
    IMB_MGR *(*allocate)(uint64_t) = (IMB_MGR * (*)(uint64_t)) dlsym(library, "alloc_mb_mgr");
    void (*initialise)(IMB_MGR *, IMB_ARCH *) =
        (void (*)(IMB_MGR *, IMB_ARCH *))dlsym(library, "init_mb_mgr_auto");
    void (*release)(IMB_MGR *) = (void (*)(IMB_MGR *))dlsym(library, "free_mb_mgr");
    unsigned (*version)(void) = (unsigned (*)(void))dlsym(library, "imb_get_version");
    // The manager's layout is the header's: another minor version may have moved its function pointers.
    if (!allocate || !initialise || !release || !version || (version() >> 8) != (IMB_VERSION_NUM >> 8)) {
        dlclose(library);
        return 0;
    }
    // Only where it looks for the CPU's best functions: they need no manager.
    IMB_MGR *manager = allocate(0);
    if (!manager) return 0;
    initialise(manager, NULL);
    expand = manager->gcm128_pre;
    encrypt = manager->gcm128_enc;
    decrypt = manager->gcm128_dec;
    release(manager);
    return expand && encrypt && decrypt;
}

void mc_mb_expand(const uint8_t *key, uint8_t *schedule) { expand(key, (struct gcm_key_data *)schedule); }

void mc_mb_seal(
    const uint8_t *schedule, const uint8_t *iv, const uint8_t *aad, size_t aad_count, const uint8_t *source,
    size_t count, uint8_t *target, uint8_t *tag) {
    struct gcm_context_data context;
    encrypt(
        (const struct gcm_key_data *)schedule, &context, target, source, count, iv, aad, aad_count, tag,
        MC_GCM_TAG_BYTES);
}

void mc_mb_decrypt(
    const uint8_t *schedule, const uint8_t *iv, const uint8_t *aad, size_t aad_count, const uint8_t *source,
    size_t count, uint8_t *target, uint8_t *tag) {
    struct gcm_context_data context;
    decrypt(
        (const struct gcm_key_data *)schedule, &context, target, source, count, iv, aad, aad_count, tag,
        MC_GCM_TAG_BYTES);
}

#else

int mc_mb_load(void) { return 0; }
void mc_mb_expand(const uint8_t *key, uint8_t *schedule) {
    (void)key, (void)schedule;
    mc_broken("ipsec-mb is absent");
}
void mc_mb_seal(
    const uint8_t *schedule, const uint8_t *iv, const uint8_t *aad, size_t aad_count, const uint8_t *source,
    size_t count, uint8_t *target, uint8_t *tag) {
    (void)schedule, (void)iv, (void)aad, (void)aad_count, (void)source, (void)count, (void)target, (void)tag;
    mc_broken("ipsec-mb is absent");
}
void mc_mb_decrypt(
    const uint8_t *schedule, const uint8_t *iv, const uint8_t *aad, size_t aad_count, const uint8_t *source,
    size_t count, uint8_t *target, uint8_t *tag) {
    mc_mb_seal(schedule, iv, aad, aad_count, source, count, target, tag);
}

#endif
