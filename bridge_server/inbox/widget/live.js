// Server-sent events (the HTML standard, section 9.2) by fetch: an EventSource would send no token.

const SILENCE_MILLISECONDS = 45_000
const FIRST_PAUSE_MILLISECONDS = 1_000
const LONGEST_PAUSE_MILLISECONDS = 60_000

/** Yields the server's events, and null for each comment. Calls `end` when the stream is silent for too long. */
export async function* eventsOf(response, end) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  for (let text = ''; ; ) {
    const silence = setTimeout(end, SILENCE_MILLISECONDS)
    const { done, value } = await reader.read().finally(() => clearTimeout(silence))
    if (done) return
    const blocks = (text + value).split('\n\n')
    text = blocks.pop()
    yield* blocks.map(eventOf).filter((event) => event !== undefined)
  }
}

/** An event with its data, null for a comment, undefined for a block with neither. */
function eventOf(block) {
  if (block.startsWith(':')) return null
  const event = {}
  for (const line of block.split('\n')) {
    const [, name, value] = /^([^:]*):? ?(.*)$/.exec(line)
    if (name) event[name] = value
  }
  return event.data === undefined ? undefined : event
}

/** Waits for a while that grows with each failure, or until the browser is on line again. */
export function pause(failures, retryAfterSeconds, signal) {
  const longest = Math.min(FIRST_PAUSE_MILLISECONDS * 2 ** (failures - 1), LONGEST_PAUSE_MILLISECONDS)
  const milliseconds = Math.max(longest * (0.5 + Math.random() / 2), retryAfterSeconds * 1000)
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds)
    signal.addEventListener('abort', resolve, { once: true })
    window.addEventListener('online', resolve, { once: true, signal })
    signal.addEventListener('abort', () => clearTimeout(timer), { once: true })
  })
}
