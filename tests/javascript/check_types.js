// Checks the types of tsconfig.json in this folder, as `tsc` does, but for the declarations of other packages: these are
// read, and not checked themselves, which takes twice as long as all the rest.

import ts from 'typescript'

const { config } = ts.readConfigFile('tsconfig.json', ts.sys.readFile)
const { fileNames, options, errors } = ts.parseJsonConfigFileContent(config, ts.sys, process.cwd())
const program = ts.createProgram(fileNames, options)
const isOurs = ({ fileName }) => !fileName.includes('/node_modules/') || fileName.includes('/@bridge-server/')
const ours = program.getSourceFiles().filter(isOurs)
const faults = [
  ...errors,
  ...program.getConfigFileParsingDiagnostics(),
  ...program.getOptionsDiagnostics(),
  ...program.getGlobalDiagnostics(),
  ...ours.flatMap((file) => [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)]),
]
console.log(ours.map(({ fileName }) => fileName).join('\n'))
console.log(ts.formatDiagnostics(faults, { ...ts.sys, getCanonicalFileName: (name) => name, getNewLine: () => '\n' }))
process.exit(faults.length ? 1 : 0)
