package schemas

import "reflect"

// queryTypes maps every object of the schemas of queries to its Go type.
func queryTypes() map[string]reflect.Type {
	return map[string]reflect.Type{
		"page_query.v1.json":                     reflect.TypeFor[PageQuery](),
		"sessions_query.v1.json":                 reflect.TypeFor[SessionsQuery](),
		"messages_query.v1.json":                 reflect.TypeFor[MessagesQuery](),
		"events_query.v1.json":                   reflect.TypeFor[EventsQuery](),
		"outcome_query.v1.json":                  reflect.TypeFor[OutcomeQuery](),
		"sessions_page.v1.json":                  reflect.TypeFor[SessionsPage](),
		"sessions_page.v1.json#/$defs/summary":   reflect.TypeFor[SessionSummary](),
		"sessions_page.v1.json#/$defs/parent":    reflect.TypeFor[SessionParent](),
		"approvals_page.v1.json":                 reflect.TypeFor[ApprovalsPage](),
		"approvals_page.v1.json#/$defs/approval": reflect.TypeFor[PendingApproval](),
		"session_tree.v1.json":                   reflect.TypeFor[SessionTree](),
		"session_tree.v1.json#/$defs/node":       reflect.TypeFor[TreeNode](),
		"session_tree.v1.json#/$defs/entry":      reflect.TypeFor[TreeEntry](),
		"session_state.v1.json":                  reflect.TypeFor[SessionState](),
		"session_state.v1.json#/$defs/run":       reflect.TypeFor[RunState](),
		"session_state.v1.json#/$defs/call":      reflect.TypeFor[CallState](),
		"session_state.v1.json#/$defs/input":     reflect.TypeFor[QueuedInput](),
		"messages_page.v1.json":                  reflect.TypeFor[MessagesPage](),
		"messages_page.v1.json#/$defs/message":   reflect.TypeFor[SessionMessage](),
		"events_page.v1.json":                    reflect.TypeFor[EventsPage](),
		"events_page.v1.json#/$defs/event":       reflect.TypeFor[QueriedEvent](),
		"outcome.v1.json":                        reflect.TypeFor[Outcome](),
		"session_stats.v1.json":                  reflect.TypeFor[SessionStats](),
		"tools_page.v1.json":                     reflect.TypeFor[ToolsPage](),
		"models_page.v1.json":                    reflect.TypeFor[ModelsPage](),
		"models_page.v1.json#/$defs/model":       reflect.TypeFor[ModelInfo](),
		"models_page.v1.json#/$defs/rates":       reflect.TypeFor[ModelRates](),
		"query_error.v1.json":                    reflect.TypeFor[QueryError](),
	}
}
