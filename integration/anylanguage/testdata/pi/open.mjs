// Opens a session file with pi's own session manager, tells what it sees, and goes on with the session.
//
//   node open.mjs FILE
import { dirname } from 'node:path'
import { SessionManager } from '@mariozechner/pi-coding-agent'

const file = process.argv[2]
const told = async () => {
  const s = SessionManager.open(file)
  const listed = await SessionManager.list(s.getCwd(), dirname(file))
  const shown = (nodes) => nodes.map((n) => ({
    id: n.entry.id, type: n.entry.type, label: n.label, children: shown(n.children)
  }))
  return {
    id: s.getSessionId(), cwd: s.getCwd(), leaf: s.getLeafId(), name: s.getSessionName(),
    listed: listed.map((l) => ({ id: l.id, messageCount: l.messageCount, firstMessage: l.firstMessage })),
    tree: shown(s.getTree()), context: s.buildSessionContext()
  }
}

const before = await told()
const s = SessionManager.open(file)
const text = (t) => [{ type: 'text', text: t }]
s.appendMessage({ role: 'user', content: text('and now?'), timestamp: 1767323048000 })
s.appendMessage({
  role: 'assistant', content: text('now pi answers'), api: 'anthropic-messages', provider: 'anthropic', model: 'claude',
  usage: { input: 1, output: 1, cacheRead: 0, cacheWrite: 0, totalTokens: 2, cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 } },
  stopReason: 'stop', timestamp: 1767323049000
})
console.log(JSON.stringify({ before, after: await told() }))
