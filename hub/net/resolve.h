/* SPDX-License-Identifier: MIT
 *
 * What the hub says of a file, asked over the network (HEAD .../resolve/<revision>/<file>), and what is in a
 * repository (GET .../api/models/<repo>/revision/<revision>?blobs=true).
 */
#ifndef BN_HUB_RESOLVE_H
#define BN_HUB_RESOLVE_H

#include "hub/cache/cache.h"
#include "hub/files/document.h"
#include "hub/net/http.h"

struct bn_hub_server {
    char endpoint[512]; /* HF_ENDPOINT, else https://huggingface.co; no slash at the end */
    char token[512];    /* HF_TOKEN, else the file HF_TOKEN_PATH or HF_HOME/token names; "" without */
    bool offline;       /* HF_HUB_OFFLINE, --offline: nothing is asked */
    struct bn_http_patience patience;
};
/* The file of the token, when there is no HF_TOKEN; false when no variable says where. */
bool bn_hub_token_path(char out[BN_HUB_PATH_MAX]);
BN_MUST_CHECK bn_status bn_hub_server_read(struct bn_hub_server *server, bn_error *err);

/* The address of a file at a revision, or with file NULL of the list of files; an error for an unsafe path. */
BN_MUST_CHECK bn_status bn_hub_url(char out[2049], const struct bn_hub_server *server, const char *repo,
                                   const char *file, const char *revision, bn_error *err);

struct bn_hub_metadata {
    char url[2049];  /* to download it: the endpoint's, which redirects */
    char commit[65]; /* X-Repo-Commit */
    char etag[129];  /* the blob's name: X-Linked-Etag or ETag, no quotes, no W/ */
    char sha256[65]; /* of large files (LFS, xet), else "" */
    uint64_t size;
};
/* BN_ERR_NOT_FOUND tells repository, revision and file apart (X-Error-Code); BN_ERR_AUTH tells a gated
 * repository, with the page where access is asked for, from a missing or wrong token. */
BN_MUST_CHECK bn_status bn_hub_resolve(struct bn_hub_metadata *out, const struct bn_hub_server *server,
                                       const char *repo, const char *file, const char *revision,
                                       bn_error *err);

/* What a server says of a URL, with the conditions of the request; asked again like all of these. The token
 * goes to the endpoint only. */
BN_MUST_CHECK bn_status bn_hub_ask(struct bn_http_source *out, const struct bn_hub_server *server,
                                   const struct bn_http_request *request, bn_error *err);

/* What is in a repository, as the hub says it: an object with "siblings" {"rfilename"}, which are safe paths. To be
 * deleted. BN_ERR_FORMAT for another answer. */
BN_MUST_CHECK bn_status bn_hub_list(cJSON **out, const struct bn_hub_server *server, const char *repo,
                                    const char *revision, bn_error *err);
/* The same from the text of an answer. */
BN_MUST_CHECK bn_status bn_hub_listing_parse(cJSON **out, const char *text, size_t n, bn_error *err);

#endif
