/*
 * The Model Context Protocol at POST /mcp, in both eras: mcp.c speaks it, mcp_tools.c has the tools. Stateless in both: no session, JSON
 * answers, a tool that waits for a verdict is a request that sleeps (http.h, respond_wait).
 */
#pragma once
#include "server/api/api.h"

/* How a tool ended. MCP_WAIT: it is called again when something happened; it asked for that itself. */
enum mcp_outcome { MCP_OK, MCP_FAILED, MCP_WAIT };
struct mcp_result {
    json_t *doc;                   /* structured content; owned by the caller */
    char *text;                    /* what to show instead of the document's text; may be NULL */
};
/* On MCP_FAILED doc is {"code","text","faults"?}. */
typedef enum mcp_outcome mcp_call(const struct request *req, struct response *res, const json_t *arguments, struct mcp_result *ret);
struct mcp_tool {
    const char *name, *title, *description;
    const char *schema;            /* of its arguments, as JSON text */
    mcp_call *call;
    enum scope scope;
    bool reads_only, enabled_by_knowledge;      /* the second: not there without a knowledge layer */
};
const struct mcp_tool *mcp_tool_find(const struct app *app, const char *name);
/* In a fixed order; new reference. */
json_t *mcp_tools_list(const struct app *app);
