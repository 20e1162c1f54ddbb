/* Flow schema: what may stand at a place of a flow, from the JSON schema that the server publishes. */

/* Returns a schema without references and choices: what an `if` says of the value is merged in. */
export function resolve(root, schema, value) {
  let here = schema ?? {};
  for (let depth = 0; depth < 8 && here; depth += 1) {
    if (here.$ref) here = { ...root.$defs[here.$ref.split("/").at(-1)], ...without(here, "$ref") };
    else if (here.anyOf) here = { ...without(here, "anyOf"), ...variantOf(root, here.anyOf, value) };
    else break;
  }
  const told = (here.allOf ?? []).filter((one) => one.if && holds(one.if, value)).map((one) => one.then);
  if (!told.length) return here;
  const properties = Object.assign({}, here.properties, ...told.map((one) => one.properties));
  return { ...here, properties, required: [...(here.required ?? []), ...told.flatMap((one) => one.required ?? [])] };
}

/* Returns the ways in which a value may be written, none but null left out. */
export function variants(root, schema) {
  const found = schema?.anyOf ?? (Array.isArray(schema?.type) ? schema.type.map((type) => ({ ...schema, type })) : [schema ?? {}]);
  return found.filter((one) => one.type !== "null");
}

function variantOf(root, all, value) {
  const found = all.filter((one) => one.type !== "null");
  const kind = kindOf(value);
  const fits = found.filter((one) => resolve(root, one, value).type === kind);
  const fitting = fits.find((one) => (resolve(root, one, value).required ?? []).every((name) => name in Object(value))) ?? fits[0];
  // A mapping is what most is written of; what is not there yet may become one.
  return fitting ?? found.find((one) => one.$ref) ?? found[0] ?? {};
}

export function kindOf(value) {
  if (Array.isArray(value)) return "array";
  if (value === null || value === undefined) return "null";
  return { object: "object", boolean: "boolean", number: "number" }[typeof value] ?? "string";
}

export const typeOf = (schema) => (Array.isArray(schema.type) ? schema.type.find((one) => one !== "null") : schema.type) ?? (schema.properties ? "object" : undefined);

/* Returns the values to choose from, each with what it is called. */
export function choices(schema) {
  if (schema.oneOf) return schema.oneOf.map((one) => ({ value: one.const, label: one.title && one.title !== one.const ? one.title : "" }));
  if (schema.enum) return schema.enum.map((value) => ({ value, label: "" }));
  if (schema.const !== undefined) return [{ value: schema.const, label: "" }];
  return typeOf(schema) === "boolean" ? [{ value: true, label: "" }, { value: false, label: "" }] : [];
}

/* Returns the least that a value of a schema must hold; texts are left for people to write. */
export function skeleton(root, schema, value) {
  const here = resolve(root, schema, value);
  if (here.default !== undefined && here.default !== null && !here.required) return here.default;
  const [first] = choices(here);
  const kind = typeOf(here);
  if (kind === "object") {
    const made = { ...value };
    for (let more = true; more;) {
      const now = resolve(root, schema, made);
      const name = (now.required ?? []).find((one) => !(one in made));
      more = name !== undefined;
      if (more) made[name] = skeleton(root, now.properties?.[name]);
    }
    return made;
  }
  if (kind === "array") return here.minItems ? [skeleton(root, here.items)] : [];
  if (first) return first.value;
  return { number: here.minimum ?? 0, integer: here.minimum ?? 0, boolean: false }[kind] ?? "";
}

/* Returns the schema at a path of steps, each with the values that stand beside the next. */
export function schemaAt(root, steps) {
  let here = resolve(root, root, steps.values);
  for (const step of steps) {
    const next = step.key === undefined ? here.items : here.properties?.[step.key] ?? objectOf(here.additionalProperties);
    if (!next) return null;
    here = resolve(root, next, step.values);
  }
  return here;
}

const objectOf = (value) => (value && typeof value === "object" ? value : null);

function holds(condition, value) {
  return Object.entries(condition.properties ?? {}).every(([name, one]) => value?.[name] === one.const);
}

function without(object, name) {
  const { [name]: gone, ...rest } = object;
  return rest;
}
