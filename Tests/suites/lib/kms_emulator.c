/* SPDX-License-Identifier: MPL-2.0 */
/* A display device that is not there: card1 with one connector, HDMI at first, in a umockdev test bed, for unmodified libdrm and
 * libudev in other processes. To be run under umockdev-wrapper.
 *
 * Its first line names the test bed, for UMOCKDEV_DIR of those processes. Each line of standard input changes the device
 * and is answered by `ok`:
 *
 *   plug TYPE      a screen with HDCP up to that content type: 0, 1, or none
 *   unplug
 *   lose           the link loses HDCP, with an event
 *   lose-silently  the same, without an event
 *   authenticate   what was asked for and can be had becomes enabled, with an event
 *   connector TYPE the connector is another one: a number of DRM_MODE_CONNECTOR_…
 *   fail on|off    every call fails
 *   renders NAME   the device has no connectors any more, and that is its driver
 */
#include <drm_mode.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <umockdev.h>
#include <xf86drm.h>

enum { CONNECTOR = 33, CRTC = 40, ENCODER = 41, PROTECTION = 7, TYPE = 8 };

static UMockdevTestbed *bed;
static const char *card = "/sys/devices/pci0/drm/card1";
static GMutex lock;
static guint64 protection, type;
static int is_connected = 1, capable = 1, is_failing;
static guint32 connector = DRM_MODE_CONNECTOR_HDMIA;
static char driver[32];

static void tell(void) {
  umockdev_testbed_set_property(bed, card, "HOTPLUG", "1");
  umockdev_testbed_uevent(bed, card, "change");
}

static void put(UMockdevIoctlData *data, gsize offset, const void *bytes, gsize size) {
  umockdev_ioctl_data_update(data, offset, (guint8 *)bytes, size);
}

static void put_array(UMockdevIoctlData *data, gsize offset, const void *bytes, gsize size) {
  UMockdevIoctlData *target = umockdev_ioctl_data_resolve(data, offset, size, NULL);
  if (!target) return;
  put(target, 0, bytes, size);
  umockdev_ioctl_data_unref(target);
}

static void get_version(UMockdevIoctlData *data) {
  struct drm_version answer;
  gsize length = strlen(driver);
  memcpy(&answer, data->data, sizeof answer);
  if (answer.name_len) put_array(data, offsetof(struct drm_version, name), driver, length);
  if (answer.date_len) put_array(data, offsetof(struct drm_version, date), driver, length);
  if (answer.desc_len) put_array(data, offsetof(struct drm_version, desc), driver, length);
  answer.name_len = answer.date_len = answer.desc_len = length;
  put(data, 0, &answer, sizeof answer);
}

static void get_resources(UMockdevIoctlData *data) {
  struct drm_mode_card_res answer;
  guint32 ids[3] = {CONNECTOR, CRTC, ENCODER};
  memcpy(&answer, data->data, sizeof answer);
  if (answer.count_connectors) put_array(data, offsetof(struct drm_mode_card_res, connector_id_ptr), &ids[0], 4);
  if (answer.count_crtcs) put_array(data, offsetof(struct drm_mode_card_res, crtc_id_ptr), &ids[1], 4);
  if (answer.count_encoders) put_array(data, offsetof(struct drm_mode_card_res, encoder_id_ptr), &ids[2], 4);
  answer.count_fbs = 0;
  answer.count_connectors = answer.count_crtcs = answer.count_encoders = 1;
  answer.max_width = answer.max_height = 8192;
  put(data, 0, &answer, sizeof answer);
}

static void get_connector(UMockdevIoctlData *data) {
  struct drm_mode_get_connector answer;
  guint32 ids[2] = {PROTECTION, TYPE}, encoder = ENCODER;
  guint64 values[2] = {protection, type};
  memcpy(&answer, data->data, sizeof answer);
  if (answer.count_props >= 2) {
    put_array(data, offsetof(struct drm_mode_get_connector, props_ptr), ids, sizeof ids);
    put_array(data, offsetof(struct drm_mode_get_connector, prop_values_ptr), values, sizeof values);
  }
  if (answer.count_encoders) put_array(data, offsetof(struct drm_mode_get_connector, encoders_ptr), &encoder, 4);
  answer.count_props = 2;
  answer.count_modes = 0;
  answer.count_encoders = 1;
  answer.encoder_id = ENCODER;
  answer.connector_type = connector;
  answer.connector_type_id = 1;
  answer.connection = is_connected ? 1 : 2;
  put(data, 0, &answer, sizeof answer);
}

static void get_encoder(UMockdevIoctlData *data) {
  struct drm_mode_get_encoder answer;
  memcpy(&answer, data->data, sizeof answer);
  answer.crtc_id = is_connected ? CRTC : 0;
  put(data, 0, &answer, sizeof answer);
}

static void get_properties(UMockdevIoctlData *data) {
  struct drm_mode_obj_get_properties answer;
  guint32 ids[2] = {PROTECTION, TYPE};
  guint64 values[2] = {protection, type};
  memcpy(&answer, data->data, sizeof answer);
  if (answer.count_props >= 2) {
    put_array(data, offsetof(struct drm_mode_obj_get_properties, props_ptr), ids, sizeof ids);
    put_array(data, offsetof(struct drm_mode_obj_get_properties, prop_values_ptr), values, sizeof values);
  }
  answer.count_props = 2;
  put(data, 0, &answer, sizeof answer);
}

static void get_property(UMockdevIoctlData *data) {
  static const char *names[2][3] = {{"Undesired", "Desired", "Enabled"}, {"HDCP Type0", "HDCP Type1"}};
  struct drm_mode_get_property answer;
  memcpy(&answer, data->data, sizeof answer);
  int which = answer.prop_id == TYPE, count = which ? 2 : 3;
  strcpy(answer.name, which ? "HDCP Content Type" : "Content Protection");
  if ((int)answer.count_enum_blobs >= count) {
    struct drm_mode_property_enum entries[3] = {0};
    for (int i = 0; i < count; i++) {
      entries[i].value = (guint64)i;
      strcpy(entries[i].name, names[which][i]);
    }
    put_array(data, offsetof(struct drm_mode_get_property, enum_blob_ptr), entries, (gsize)count * sizeof *entries);
  }
  if ((int)answer.count_values >= count) {
    guint64 values[3] = {0, 1, 2};
    put_array(data, offsetof(struct drm_mode_get_property, values_ptr), values, (gsize)count * 8);
  }
  answer.count_values = answer.count_enum_blobs = (guint32)count;
  answer.flags = DRM_MODE_PROP_ENUM;
  put(data, 0, &answer, sizeof answer);
}

/* The kernel lets only a driver say `enabled`. */
static int set_property(UMockdevIoctlData *data) {
  struct drm_mode_obj_set_property request;
  memcpy(&request, data->data, sizeof request);
  if (request.prop_id == PROTECTION && request.value < 2) {
    protection = request.value;
    return 0;
  }
  if (request.prop_id == TYPE && request.value < 2) {
    type = request.value;
    if (protection) protection = 1;
    return 0;
  }
  return EINVAL;
}

static gboolean on_ioctl(UMockdevIoctlBase *base, UMockdevIoctlClient *client, gpointer user) {
  gulong request = umockdev_ioctl_client_get_request(client);
  UMockdevIoctlData *argument = umockdev_ioctl_client_get_arg(client);
  UMockdevIoctlData *data = _IOC_SIZE(request) ? umockdev_ioctl_data_resolve(argument, 0, _IOC_SIZE(request), NULL) : NULL;
  int error = 0;
  g_mutex_lock(&lock);
  if (is_failing) error = EIO;
  else if (request == DRM_IOCTL_SET_MASTER || request == DRM_IOCTL_DROP_MASTER) error = 0;
  else if (!data) error = EFAULT;
  else if (request == DRM_IOCTL_VERSION) get_version(data);
  else if (*driver && request == DRM_IOCTL_MODE_GETRESOURCES) error = EOPNOTSUPP;
  else if (request == DRM_IOCTL_MODE_GETRESOURCES) get_resources(data);
  else if (request == DRM_IOCTL_MODE_GETCONNECTOR) get_connector(data);
  else if (request == DRM_IOCTL_MODE_GETENCODER) get_encoder(data);
  else if (request == DRM_IOCTL_MODE_OBJ_GETPROPERTIES) get_properties(data);
  else if (request == DRM_IOCTL_MODE_GETPROPERTY) get_property(data);
  else if (request == DRM_IOCTL_MODE_OBJ_SETPROPERTY) error = set_property(data);
  else error = ENOTTY;
  g_mutex_unlock(&lock);
  umockdev_ioctl_client_complete(client, error ? -1 : 0, error);
  if (data) umockdev_ioctl_data_unref(data);
  return TRUE;
}

static void obey(const char *line) {
  gboolean tells = TRUE;
  g_mutex_lock(&lock);
  if (g_str_has_prefix(line, "plug ")) {
    is_connected = 1;
    capable = g_str_has_suffix(line, "none") ? -1 : line[5] - '0';
  } else if (!strcmp(line, "unplug")) {
    is_connected = 0;
    if (protection == 2) protection = 1;
  } else if (g_str_has_prefix(line, "lose")) {
    if (protection == 2) protection = 1;
    tells = !strcmp(line, "lose");
  } else if (g_str_has_prefix(line, "connector ")) {
    connector = (guint32)g_ascii_strtoull(line + 10, NULL, 10);
  } else if (!strcmp(line, "authenticate")) {
    tells = protection == 1 && is_connected && capable >= (int)type;
    if (tells) protection = 2;
  } else if (g_str_has_prefix(line, "renders ")) {
    tells = FALSE;
    g_strlcpy(driver, line + 8, sizeof driver);
  } else {
    tells = FALSE;
    is_failing = !strcmp(line, "fail on");
  }
  g_mutex_unlock(&lock);
  if (tells) tell();
}

static gpointer serve(gpointer context) {
  g_main_loop_run(g_main_loop_new(context, FALSE));
  return NULL;
}

int main(void) {
  char line[80];
  setvbuf(stdout, NULL, _IOLBF, 0);
  bed = umockdev_testbed_new();
  GError *error = NULL;
  if (!umockdev_testbed_add_from_string(
          bed, "P: /devices/pci0/drm/card1\nN: dri/card1\nE: DEVNAME=/dev/dri/card1\nE: SUBSYSTEM=drm\n"
               "E: DEVTYPE=drm_minor\nA: dev=226:1\n", &error)) {
    fprintf(stderr, "%s\n", error->message);
    return 1;
  }
  UMockdevIoctlBase *base = umockdev_ioctl_base_new();
  g_signal_connect(base, "handle-ioctl", G_CALLBACK(on_ioctl), NULL);
  if (!umockdev_testbed_attach_ioctl(bed, "/dev/dri/card1", base, &error)) {
    fprintf(stderr, "%s\n", error->message);
    return 1;
  }
  g_thread_new("main loop", serve, NULL);
  printf("%s\n", g_getenv("UMOCKDEV_DIR"));
  while (fgets(line, sizeof line, stdin)) {
    line[strcspn(line, "\n")] = 0;
    obey(line);
    printf("ok\n");
  }
  return 0;
}
