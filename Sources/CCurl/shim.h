// libcurl for Swift. Its setters and getters are variadic, which Swift cannot import: each kind stands here once.
#pragma once
#include <curl/curl.h>

static inline CURLcode CCurl_set_long(CURL *easy, CURLoption option, long value) {
    return curl_easy_setopt(easy, option, value);
}
static inline CURLcode CCurl_set_size(CURL *easy, CURLoption option, curl_off_t value) {
    return curl_easy_setopt(easy, option, value);
}
/// libcurl copies the text; not so for CURLOPT_POSTFIELDS.
static inline CURLcode CCurl_set_text(CURL *easy, CURLoption option, const char *value) {
    return curl_easy_setopt(easy, option, value);
}
/// Null removes it.
static inline CURLcode CCurl_set_list(CURL *easy, CURLoption option, struct curl_slist *value) {
    return curl_easy_setopt(easy, option, value);
}
static inline CURLcode CCurl_set_pointer(CURL *easy, CURLoption option, void *value) {
    return curl_easy_setopt(easy, option, value);
}
static inline CURLcode CCurl_set_write(CURL *easy, curl_write_callback callback, void *context) {
    CURLcode code = curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, callback);
    return code == CURLE_OK ? curl_easy_setopt(easy, CURLOPT_WRITEDATA, context) : code;
}
static inline CURLcode CCurl_set_open_socket(CURL *easy, curl_opensocket_callback callback, void *context) {
    CURLcode code = curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, callback);
    return code == CURLE_OK ? curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, context) : code;
}
static inline CURLcode CCurl_get_long(CURL *easy, CURLINFO info, long *value) {
    return curl_easy_getinfo(easy, info, value);
}
static inline CURLcode CCurl_get_size(CURL *easy, CURLINFO info, curl_off_t *value) {
    return curl_easy_getinfo(easy, info, value);
}
static inline CURLMcode CCurl_multi_set_long(CURLM *multi, CURLMoption option, long value) {
    return curl_multi_setopt(multi, option, value);
}
/// The next finished transfer and its result; null when there is none. In C because the result is in a union.
static inline CURL *CCurl_next_finished(CURLM *multi, CURLcode *result) {
    int left = 0;
    CURLMsg *message;
    while ((message = curl_multi_info_read(multi, &left)))
        if (message->msg == CURLMSG_DONE) {
            *result = message->data.result;
            return message->easy_handle;
        }
    return NULL;
}
