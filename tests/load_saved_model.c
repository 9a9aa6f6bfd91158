/* SavedModel, strings -> what the C++ loader of TensorFlow Serving answers.

   Usage: load_saved_model EXPORT_DIR LIBRARIES OUTPUTS [INPUT SHAPE VALUE...]
     LIBRARIES  comma-separated .so files with the ops of tensorflow_text
     OUTPUTS    comma-separated tensors, float32, int32 or string
     INPUT      tensor to feed, such as serving_default_text:0; there may be
                several, each with its own shape and values
     SHAPE      of the input, such as 3 or 2,4: so many strings follow, or
                numbers where the tensor is int32; other types are refused
   Prints each output on a line of its own: its name, its shape, its values,
   between tabs. A backslash, a tab and the end of a line within are \\, \t, \n.
*/
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/c/c_api.h"
#include "tensorflow/c/tf_tstring.h"

#define MOST 64

static TF_Status* status;

/* Ends with a message. */
static void fail(const char* name, const char* what) {
  fprintf(stderr, "%s: %s\n", name, what);
  exit(1);
}

static void check(const char* what) {
  if (TF_GetCode(status) == TF_OK) return;
  fail(what, TF_Message(status));
}

/* "name:0" to the tensor of that name; cuts the name at its colon. */
static TF_Output find(TF_Graph* graph, char* name) {
  char* colon = strrchr(name, ':');
  if (colon == NULL) fail(name, "no tensor, such as name:0");
  TF_Output output = {NULL, atoi(colon + 1)};
  *colon = 0;
  output.oper = TF_GraphOperationByName(graph, name);
  if (output.oper == NULL) fail(name, "no such operation in the graph");
  return output;
}

static int find_all(TF_Graph* graph, char* names, TF_Output* outputs) {
  int count = 0;
  for (char* name = strtok(names, ","); name != NULL;
       name = strtok(NULL, ",")) {
    if (count == MOST) fail(name, "too many outputs");
    outputs[count++] = find(graph, name);
  }
  return count;
}

/* "2,4" to a tensor of 8 values, strings or int32; returns how many it took of
   those before `end`. */
static int make_tensor(const char* name, TF_DataType type, char* text,
                       char** values, char** end, TF_Tensor** tensor) {
  if (type != TF_STRING && type != TF_INT32) {
    fail(name, "neither string nor int32");
  }
  int64_t shape[MOST], count = 1;
  int rank = 0;
  for (char* size = strtok(text, ","); size != NULL; size = strtok(NULL, ",")) {
    if (rank == MOST) fail(name, "too many dimensions");
    shape[rank] = atoi(size);
    if (shape[rank] < 0 || count > INT32_MAX) fail(name, "no such shape");
    count *= shape[rank++];
  }
  if (count > end - values) fail(name, "fewer values than its shape has");
  size_t width = type == TF_STRING ? sizeof(TF_TString) : sizeof(int32_t);
  *tensor = TF_AllocateTensor(type, shape, rank, count * width);
  void* data = TF_TensorData(*tensor);
  for (int i = 0; i < count; i++) {
    if (type == TF_STRING) {
      TF_TString* string = (TF_TString*)data + i;
      TF_StringInit(string);
      TF_StringCopy(string, values[i], strlen(values[i]));
    } else {
      ((int32_t*)data)[i] = atoi(values[i]);
    }
  }
  return count;
}

/* A text without tabs and ends of lines, which separate texts. */
static void print_text(const TF_TString* text) {
  const char* bytes = TF_StringGetDataPointer(text);
  for (size_t i = 0; i < TF_StringGetSize(text); i++) {
    switch (bytes[i]) {
      case '\\': printf("\\\\"); break;
      case '\n': printf("\\n"); break;
      case '\t': printf("\\t"); break;
      default: putchar(bytes[i]);
    }
  }
}

static void print(const char* name, int index, const TF_Tensor* tensor) {
  TF_DataType type = TF_TensorType(tensor);
  if (type != TF_STRING && type != TF_INT32 && type != TF_FLOAT) {
    fail(name, "neither string nor int32 nor float32");
  }
  printf("%s:%d\t", name, index);
  for (int i = 0; i < TF_NumDims(tensor); i++) {
    printf("%s%lld", i ? "," : "", (long long)TF_Dim(tensor, i));
  }
  for (int64_t i = 0; i < TF_TensorElementCount(tensor); i++) {
    if (type == TF_STRING) {
      putchar('\t');
      print_text((TF_TString*)TF_TensorData(tensor) + i);
    } else if (type == TF_INT32) {
      printf("\t%d", ((int32_t*)TF_TensorData(tensor))[i]);
    } else {
      printf("\t%.9g", ((float*)TF_TensorData(tensor))[i]);
    }
  }
  printf("\n");
}

int main(int argc, char** argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: see the top of load_saved_model.c\n");
    return 2;
  }
  status = TF_NewStatus();
  for (char* name = strtok(argv[2], ","); name != NULL;
       name = strtok(NULL, ",")) {
    TF_LoadLibrary(name, status);
    check(name);
  }
  TF_Graph* graph = TF_NewGraph();
  const char* tags[] = {"serve"};
  TF_Session* session =
      TF_LoadSessionFromSavedModel(TF_NewSessionOptions(), NULL, argv[1], tags,
                                   1, graph, NULL, status);
  check(argv[1]);

  TF_Output inputs[MOST], outputs[MOST];
  TF_Tensor *fed[MOST], *answers[MOST];
  int num_outputs = find_all(graph, argv[3], outputs);
  int num_inputs = 0;
  for (int i = 4; i < argc; num_inputs++) {
    if (i + 1 == argc) fail(argv[i], "no shape follows");
    if (num_inputs == MOST) fail(argv[i], "too many inputs");
    inputs[num_inputs] = find(graph, argv[i]);
    i += 2 + make_tensor(argv[i], TF_OperationOutputType(inputs[num_inputs]),
                         argv[i + 1], argv + i + 2, argv + argc,
                         &fed[num_inputs]);
  }
  TF_SessionRun(session, NULL, inputs, fed, num_inputs, outputs, answers,
                num_outputs, NULL, 0, NULL, status);
  check("run");
  for (int i = 0; i < num_outputs; i++) {
    print(TF_OperationName(outputs[i].oper), outputs[i].index, answers[i]);
  }
  return 0;
}
