export default function setup(globalConfig?: any): Promise<void>
export function teardown(): Promise<void>
