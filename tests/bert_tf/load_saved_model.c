/* SavedModel, strings -> what the C++ loader of TensorFlow Serving answers.

   Usage: load_saved_model EXPORT_DIR LIBRARIES INPUTS OUTPUTS STRING...
     LIBRARIES  comma-separated .so files with the ops of tensorflow_text
     INPUTS     comma-separated tensors, such as serving_default_text:0;
                each is fed the same strings
     OUTPUTS    comma-separated tensors, float32 or string
   Prints each output on a line of its own: its name, its shape, its values.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/c/c_api.h"
#include "tensorflow/c/tf_tstring.h"

#define MOST 64

static TF_Status* status;

static void check(const char* what) {
  if (TF_GetCode(status) == TF_OK) return;
  fprintf(stderr, "%s: %s\n", what, TF_Message(status));
  exit(1);
}

/* "name:0" to the tensor of that name; cuts the name at its colon. */
static TF_Output find(TF_Graph* graph, char* name) {
  char* colon = strrchr(name, ':');
  TF_Output output = {NULL, atoi(colon + 1)};
  *colon = 0;
  output.oper = TF_GraphOperationByName(graph, name);
  if (output.oper == NULL) {
    fprintf(stderr, "no operation %s in the graph\n", name);
    exit(1);
  }
  return output;
}

static int find_all(TF_Graph* graph, char* names, TF_Output* outputs) {
  int count = 0;
  for (char* name = strtok(names, ","); name != NULL && count < MOST;
       name = strtok(NULL, ",")) {
    outputs[count++] = find(graph, name);
  }
  return count;
}

static TF_Tensor* make_strings(char** strings, int count) {
  int64_t shape[1] = {count};
  TF_Tensor* tensor = TF_AllocateTensor(TF_STRING, shape, 1,
                                        count * sizeof(TF_TString));
  TF_TString* data = TF_TensorData(tensor);
  for (int i = 0; i < count; i++) {
    TF_StringInit(&data[i]);
    TF_StringCopy(&data[i], strings[i], strlen(strings[i]));
  }
  return tensor;
}

static void print(const char* name, int index, const TF_Tensor* tensor) {
  printf("%s:%d\t", name, index);
  for (int i = 0; i < TF_NumDims(tensor); i++) {
    printf("%s%lld", i ? "," : "", (long long)TF_Dim(tensor, i));
  }
  for (int64_t i = 0; i < TF_TensorElementCount(tensor); i++) {
    if (TF_TensorType(tensor) == TF_STRING) {
      const TF_TString* text = (TF_TString*)TF_TensorData(tensor) + i;
      printf("\t%.*s", (int)TF_StringGetSize(text),
             TF_StringGetDataPointer(text));
    } else {
      printf("\t%.9g", ((float*)TF_TensorData(tensor))[i]);
    }
  }
  printf("\n");
}

int main(int argc, char** argv) {
  if (argc < 5) {
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
  int num_inputs = find_all(graph, argv[3], inputs);
  int num_outputs = find_all(graph, argv[4], outputs);
  for (int i = 0; i < num_inputs; i++) {
    fed[i] = make_strings(argv + 5, argc - 5);
  }
  TF_SessionRun(session, NULL, inputs, fed, num_inputs, outputs, answers,
                num_outputs, NULL, 0, NULL, status);
  check("run");
  for (int i = 0; i < num_outputs; i++) {
    print(TF_OperationName(outputs[i].oper), outputs[i].index, answers[i]);
  }
  return 0;
}
