/* The table of routes. A test compares it with api/openapi.yaml, both ways. */
#include "server/api/api.h"

const struct route api_routes[] = {
    /* what is asked for most comes first */
    {HTTP_GET, "/v1/kernels/{shape_hash}/kernel.cubin", kernels_part, SCOPE_READ, 0},
    {HTTP_GET, "/v1/kernels/{shape_hash}", kernels_get, SCOPE_READ, ROUTE_WAITS},
    {HTTP_GET, "/v1/kernels/{shape_hash}/kernel.ptx", kernels_part, SCOPE_READ, 0},
    {HTTP_GET, "/v1/kernels/{shape_hash}/source", kernels_part, SCOPE_READ, 0},
    {HTTP_GET, "/v1/kernels/{shape_hash}/certificate.json", kernels_part, SCOPE_READ, 0},
    {HTTP_GET, "/v1/kernels/{shape_hash}/certificate.json.minisig", kernels_part, SCOPE_READ, 0},
    {HTTP_GET, "/v1/kernels/{shape_hash}/bundle.tar", kernels_part, SCOPE_READ, 0},
    {HTTP_GET, "/v1/kernels", kernels_list, SCOPE_READ, 0},
    {HTTP_GET, "/v1/artifacts/{digest}", artifacts_get, SCOPE_READ, 0},
    {HTTP_POST, "/v1/jobs", jobs_post, SCOPE_SUBMIT, ROUTE_JSON | ROUTE_COMMITS},
    {HTTP_GET, "/v1/jobs", jobs_list, SCOPE_READ, 0},
    {HTTP_GET, "/v1/jobs/{id}", jobs_get, SCOPE_READ, 0},
    {HTTP_POST, "/v1/jobs/{id}/cancel", jobs_post_cancel, SCOPE_SUBMIT, ROUTE_COMMITS},
    {HTTP_GET, "/v1/jobs/{id}/events", events_of_job, SCOPE_READ, 0},
    {HTTP_POST, "/v1/jobs/{id}/candidates", jobs_post_candidate, SCOPE_SUBMIT, ROUTE_JSON | ROUTE_COMMITS},
    {HTTP_GET, "/v1/candidates/{id}", candidates_get, SCOPE_READ, 0},
    {HTTP_GET, "/v1/events", events_of_all, SCOPE_READ, 0},
    {HTTP_POST, "/v1/shape-hash", shape_hash_post, SCOPE_READ, ROUTE_JSON},
    {HTTP_GET, "/v1/ops", ops_list, SCOPE_READ, 0},
    {HTTP_GET, "/v1/ops/{name}", ops_get, SCOPE_READ, 0},
    {HTTP_GET, "/v1/devices", devices_list, SCOPE_READ, ROUTE_WAITS},
    {HTTP_GET, "/v1/signing-key", signing_key_get, SCOPE_NONE, 0},
    {HTTP_GET, "/v1/tokens", tokens_list, SCOPE_ADMIN, 0},
    {HTTP_POST, "/v1/tokens", tokens_post, SCOPE_ADMIN, ROUTE_JSON | ROUTE_COMMITS},
    {HTTP_DELETE, "/v1/tokens/{id}", tokens_delete, SCOPE_ADMIN, ROUTE_COMMITS},
    {HTTP_GET, "/healthz", health_get, SCOPE_NONE, 0},
    {HTTP_GET, "/readyz", ready_get, SCOPE_NONE, 0},
    {HTTP_GET, "/metrics", metrics_get, SCOPE_READ, 0},
    {HTTP_GET, "/openapi.yaml", openapi_get, SCOPE_NONE, 0},
    {HTTP_GET, "/problems/{name}", problems_get, SCOPE_NONE, 0},
    {HTTP_GET, "/", files_get, SCOPE_NONE, 0},
    {HTTP_GET, "/{path...}", files_get, SCOPE_NONE, ROUTE_HIDDEN},
};
const int api_route_count = sizeof api_routes / sizeof *api_routes;
