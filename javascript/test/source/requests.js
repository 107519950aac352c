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

/** The events of a stream (server-sent events), parsed. It ends with the stream, or with `signal`. */
export async function* eventsOf(url, token, signal) {
  const answer = await fetch(url, {
    headers: { Authorization: `Bearer ${token}`, Accept: 'text/event-stream' },
    signal,
  })
  if (!answer.ok) throw new RefusedError(answer.status, problemOf(await answer.text()))
  const decoder = new TextDecoder()
  let rest = ''
  for await (const chunk of answer.body) {
    const blocks = (rest + decoder.decode(chunk, { stream: true })).split(/\r?\n\r?\n/)
    rest = blocks.pop()
    for (const block of blocks) {
      const data = block.split(/\r?\n/).filter((line) => line.startsWith('data:'))
      if (data.length) yield JSON.parse(data.map((line) => line.slice(5).trimStart()).join('\n'))
    }
  }
}

async function reached(target, options) {
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
