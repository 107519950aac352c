// The provider in a page: EIP-1193 at `window.ethereum`, announced by EIP-6963. The wallet answers for it.

const BINDING = '__bridgeServerWallet'
const EVENTS = '__bridgeServerEvents'

/** Installs it in the document that the page shows, and in each that it opens from now on. */
export async function installProvider(page, wallet, name) {
  const leaving = new AbortController()
  page.once('close', () => leaving.abort())
  const events = await wallet.events({ signal: leaving.signal })
  await page.exposeBinding(BINDING, ({ frame }, { method, params }) =>
    wallet.request({ method, params, origin: originOf(frame) })
  )
  const facts = { binding: BINDING, events: EVENTS, name }
  await page.addInitScript(injectProvider, facts)
  await page.evaluate(injectProvider, facts)
  void passEventsOn(page, events)
}

function originOf(frame) {
  try {
    return new URL(frame.url()).origin
  } catch {
    return undefined
  }
}

async function passEventsOn(page, events) {
  try {
    for await (const { event, value, origin } of events) {
      if (!['accountsChanged', 'chainChanged', 'disconnect'].includes(event)) continue
      const frames = page.frames().filter((frame) => originOf(frame) === origin)
      await Promise.all(frames.map((frame) => emitIn(frame, event, value)))
    }
  } catch {
    // The wallet has gone, and has no more events.
  }
}

function emitIn(frame, event, value) {
  const emit = ([name, ...rest]) => globalThis[name]?.(...rest)
  return frame.evaluate(emit, [EVENTS, event, value]).catch(() => undefined)
}

/* Runs in the page. */
function injectProvider({ binding, events, name }) {
  const listeners = new Map()
  const of = (event) => listeners.get(event) ?? listeners.set(event, new Set()).get(event)
  const provider = {
    isBridgeServer: true,
    async request({ method, params }) {
      const answer = await window[binding]({ method, params })
      if (!answer.error) return answer.result
      throw Object.assign(new Error(answer.error.message), {
        code: answer.error.code,
        data: answer.error.data,
      })
    },
    on(event, listener) {
      of(event).add(listener)
      return provider
    },
    removeListener(event, listener) {
      of(event).delete(listener)
      return provider
    },
  }
  window[events] = (event, value) => of(event).forEach((listener) => listener(value))
  Object.defineProperty(window, 'ethereum', { value: provider, configurable: true, writable: true })
  const info = {
    uuid: crypto.randomUUID?.() ?? '5f0e7d3c-8f4f-4ad7-9d3c-9d2f1c6c4c11',
    name,
    icon: 'data:image/svg+xml,<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"/>',
    rdns: 'dev.bridge-server.test',
  }
  const announce = () =>
    window.dispatchEvent(
      new CustomEvent('eip6963:announceProvider', {
        detail: Object.freeze({ info: Object.freeze(info), provider }),
      })
    )
  window.addEventListener('eip6963:requestProvider', announce)
  announce()
}
