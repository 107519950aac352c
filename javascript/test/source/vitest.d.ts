export interface ProvidedBridge {
  url: string
  v07Url: string
  rpcUrl: string
  testToken: string
  accounts: string[]
}

declare module 'vitest' {
  export interface ProvidedContext {
    bridge: ProvidedBridge
  }
}

export default function setup(project: any): Promise<() => Promise<void>>
