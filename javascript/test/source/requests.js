// Requests to a control API: a bearer token, JSON both ways, problems (RFC 9457) as errors.

/** A request that the server refused. `status` is that of HTTP, `problem` the document that it answered. */
export class RefusedError extends Error {
  constructor(status, problem) {
    const faults = (problem.errors ?? []).map(({ pointer, detail }) => `${pointer}: ${detail}`)
    super([problem.detail ?? problem.title ?? `the server answered ${status}`, ...faults].join('\n'))
    this.name = 'RefusedError'
    this.status = status
    this.problem = problem
  }
}

/** A function `(method, path, { query, body, type })` that resolves to the JSON that was answered. */
export function requester(url, token) {
  return async function request(method, path, { query = {}, body, type = 'application/json' } = {}) {
    const target = new URL(url + path)
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined) target.searchParams.set(name, String(value))
    }
    const headers = { Authorization: `Bearer ${token}` }
    if (body !== undefined) headers['Content-Type'] = type
    const sent = body === undefined || type !== 'application/json' ? body : JSON.stringify(body)
    const answer = await reached(target, { method, headers, body: sent })
    const text = await answer.text()
    if (!answer.ok) throw new RefusedError(answer.status, problemOf(text))
    return text ? JSON.parse(text) : undefined
  }
}

/** Resolves to a stream's events (server-sent events), parsed, once it is open. It ends with `signal`. */
export async function eventsOf(url, token, signal) {
  const headers = { Authorization: `Bearer ${token}`, Accept: 'text/event-stream' }
  const answer = await reached(new URL(url), { headers, signal })
  if (!answer.ok) throw new RefusedError(answer.status, problemOf(await answer.text()))
  return parsedEvents(answer.body, signal)
}

async function* parsedEvents(body, signal) {
  const decoder = new TextDecoder()
  let rest = ''
  try {
    for await (const chunk of body) {
      const blocks = (rest + decoder.decode(chunk, { stream: true })).split('\n\n')
      rest = blocks.pop()
      yield* blocks.filter((block) => block.startsWith('data: ')).map((block) => JSON.parse(block.slice(6)))
    }
  } catch (error) {
    if (!signal.aborted) throw error
  }
}

/** The answer of `fetch`. Rejects with the address and the reason if nothing answers there. */
export async function reached(target, options) {
  try {
    return await fetch(target, options)
  } catch (error) {
    throw new Error(`${target.origin} does not answer: ${error.cause?.message ?? error.message}`, {
      cause: error,
    })
  }
}

function problemOf(text) {
  try {
    const problem = JSON.parse(text)
    return typeof problem === 'object' && problem !== null ? problem : {}
  } catch {
    return { detail: text.slice(0, 200) }
  }
}
