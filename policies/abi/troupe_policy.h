/* The contract between a policy and its host, in C11. A policy is a shared library that exports two
 * functions, carries an ELF note (TROUPE_POLICY_NOTE) which is read before it is loaded, and
 * answers questions out of nothing but the calls it got: no clock, entropy, file, thread or global
 * state.
 *
 * How it grows: every struct starts with its size in bytes and is only appended to. A reader looks
 * at a field only if TROUPE_HAS says that the writer had it; absent means zero, and zero means "as
 * before". Arrays of structs have a stride. Function tables are frozen: a change is a new extension
 * name/rev.
 *
 * Tags on functions: who calls and when.
 *   [loader] the loading thread, no instance exists yet      [actor] one instance's calls, serial,
 *   [any]    any thread                                              any operating-system thread
 *   & created: between create and destroy.
 * No exception, signal or longjmp may leave a function of a policy. Who allocates frees. Pointers
 * are valid for the call unless a line says otherwise. Status: 0 is success, negative is a
 * TROUPE_E_ code.
 */
#ifndef TROUPE_POLICY_H
#define TROUPE_POLICY_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TROUPE_ABI_MAJOR 1 /* differs: refused */
#define TROUPE_ABI_MINOR 0 /* differs: fields and extensions are probed one by one */

#define TROUPE_OK 0
#define TROUPE_E_INVALID (-1)     /* a value is wrong */
#define TROUPE_E_UNSUPPORTED (-2) /* a schema, parameter or extension is unknown */
#define TROUPE_E_CORRUPT (-3)     /* state bytes disagree with their schema */
#define TROUPE_E_INTERNAL (-4)    /* the policy gave up; its host replaces it */

#define TROUPE_KIND_EVICTION 1u
#define TROUPE_KIND_TIERING 2u
#define TROUPE_KIND_QUANTIZATION 3u
#define TROUPE_KIND_SCHEDULING 4u
#define TROUPE_KIND_RETENTION 5u

#define TROUPE_NO_BLOCK 0xffffffffu /* no handle, or a root's parent */

/* True when the struct that `p` points to was written with field `f`. */
#define TROUPE_HAS(p, type, f) \
  ((p)->struct_size >= (uint32_t)(offsetof(type, f) + sizeof(((type*)0)->f)))

/* ---- what a policy says about itself
 * -------------------------------------------------------------- */

#define TROUPE_FLAG_MAY_OVER_EVICT 1u /* frees whole runs: may name more victims than asked */
#define TROUPE_FLAG_OBJECT_ORDER 2u   /* judges blocks one by one, without regard to the tree */

typedef struct troupe_param_desc {
  const char* name; /* [a-z0-9_]+ */
  const char* help; /* one line */
  double least, most, initial;
} troupe_param_desc;

typedef struct troupe_policy_desc {
  uint32_t struct_size;
  uint16_t abi_major, abi_minor;
  uint32_t kind;          /* TROUPE_KIND_ */
  uint32_t flags;         /* TROUPE_FLAG_ */
  uint32_t state_schema;  /* number of the state that save writes */
  uint32_t oldest_schema; /* oldest that load understands */
  uint64_t needs;   /* host capabilities without which create fails; an unknown bit is refused */
  uint64_t may_use; /* those it uses when they are there */
  const char* id;   /* [a-z0-9_]+; strings live as long as the library */
  const char* version;
  const char* paper;          /* authors, venue and year, or how it came to be */
  uint32_t block_state_bytes; /* size of one block's record in save_blocks */
  uint32_t param_count;
  const troupe_param_desc* params;
} troupe_policy_desc;

/* ---- what the host offers
 * ------------------------------------------------------------------------- */

typedef struct troupe_host {
  uint32_t struct_size;
  uint32_t reserved;
  void* host;
  uint64_t capabilities;
  /* [any] Table of host extension `name/rev`, or null. Not callable inside create. */
  const void* (*extension)(void* host, const char* name_rev);
  /* [actor & created] level 0 debug … 3 error; text is copied. */
  void (*log)(void* host, int32_t level, const char* text, uint64_t length);
} troupe_host;

typedef struct troupe_config {
  uint32_t struct_size;
  uint32_t capacity_blocks; /* handles are below this */
  uint64_t seed;            /* the only source of randomness */
  const char* params;       /* "name=value,name=value", not terminated */
  uint64_t params_length;
} troupe_config;

/* ---- one instance
 * --------------------------------------------------------------------------------- */

/* One record of block_state_bytes for each handle first … first+count-1, resident or not. */
typedef struct troupe_state_range {
  uint32_t struct_size;
  uint32_t first, count;
  uint32_t record_bytes;
  void* records;
} troupe_state_range;

#define TROUPE_GLOBAL_STATE_BYTES_MAX 65536u

typedef struct troupe_policy {
  uint32_t struct_size;
  uint32_t reserved;
  void* self;
  /* [any & created] Table of the policy's extension `name/rev`, or null. */
  const void* (*extension)(void* self, const char* name_rev);
  /* [actor & created] State leaves in ranges, in any order, between other calls, then the global
   * record last: `*length` holds the room in and the bytes written out, at most
   * TROUPE_GLOBAL_STATE_BYTES_MAX. Bytes are canonical: no pointers, no padding; equal histories
   * give equal bytes. */
  int32_t (*save_blocks)(void* self, const troupe_state_range* range);
  int32_t (*save_global)(void* self, void* bytes, uint64_t* length);
  /* [actor & created, before any event] The same on the way in. Events that fall between the ranges
   * and the global record are given again afterwards; the global record ends loading. */
  int32_t (*load_blocks)(void* self, uint32_t schema, const troupe_state_range* range);
  int32_t (*load_global)(void* self, uint32_t schema, const void* bytes, uint64_t length);
  /* [actor & created] Ends the instance; nothing of it is called afterwards. */
  void (*destroy)(void* self);
} troupe_policy;

/* ---- the two entry functions
 * ---------------------------------------------------------------------- */

/* [loader] Description number `index`, null past the end. */
typedef const troupe_policy_desc* (*troupe_policy_describe_fn)(uint32_t index);
/* [loader] Creates policy `id` (exact match). Fills out->struct_size … as far as the caller's
 * struct_size goes. Allocates; may refuse. */
typedef int32_t (*troupe_policy_create_fn)(const char* id, const troupe_host* host,
                                           const troupe_config* config, troupe_policy* out);
#define TROUPE_DESCRIBE_SYMBOL "troupe_policy_describe"
#define TROUPE_CREATE_SYMBOL "troupe_policy_create"

/* ---- the note, read before any code of the library runs
 * -------------------------------------------- */

#define TROUPE_NOTE_SECTION ".note.troupe"
#define TROUPE_NOTE_NAME "Troupe"
#define TROUPE_NOTE_TYPE 1u

/* Payload of the note. Text fields end in zero. */
typedef struct troupe_note {
  uint16_t abi_major, abi_minor;
  uint32_t kind;
  uint32_t state_schema;
  char id[32];
  char version[16];
} troupe_note;

typedef struct troupe_note_section {
  uint32_t name_size, payload_size, type;
  char name[8]; /* "Troupe", zero padded to a multiple of four as ELF asks */
  troupe_note payload;
} troupe_note_section;

#define TROUPE_POLICY_NOTE(kind_, schema_, id_, version_)                                      \
  __attribute__((section(TROUPE_NOTE_SECTION), used,                                           \
                 aligned(4))) static const troupe_note_section troupe_note_of_this_library = { \
      7u,                                                                                      \
      (uint32_t)sizeof(troupe_note),                                                           \
      TROUPE_NOTE_TYPE,                                                                        \
      TROUPE_NOTE_NAME,                                                                        \
      {TROUPE_ABI_MAJOR, TROUPE_ABI_MINOR, (kind_), (schema_), id_, version_}}

#ifdef __cplusplus
}
#endif

#endif
